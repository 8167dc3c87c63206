// What Netty's HashedWheelTimer costs, in the rows of bench/operations: one line for each of
// several repetitions, "work,timers,unit,structure,value". Its wheel runs in real time, on a thread
// of its own, so this is a program of its own:
//
//     java -cp netty-common.jar:jctools-core.jar NettyTimers.java 1000 100000
//
// Arming and cancelling: CPU time of the thread that calls, without what the worker thread does for
// it later. Expiring: CPU time of the worker, from arming to the last timer, per timer.

import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import io.netty.util.TimerTask;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

public final class NettyTimers {
    private static final int REPETITIONS = 3;
    private static final int LONGEST = 60_000;
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    private final int timers;
    private final boolean quiet; // warming up
    private final List<Integer> order;
    private final List<Integer> otherOrder;
    private final int[] delays;
    private final Timeout[] timeouts;
    private final TimerTask task = timeout -> { };
    private Thread worker;

    private NettyTimers(int timers, boolean quiet) {
        final Random random = new Random(timers);
        this.timers = timers;
        this.quiet = quiet;
        order = shuffled(random);
        otherOrder = shuffled(random);
        delays = random.ints(timers, 1, LONGEST + 1).toArray();
        timeouts = new Timeout[timers];
    }

    private List<Integer> shuffled(Random random) {
        final List<Integer> all = IntStream.range(0, timers).boxed().collect(Collectors.toList());
        Collections.shuffle(all, random);
        return all;
    }

    private HashedWheelTimer newTimer() {
        return new HashedWheelTimer(r -> worker = new Thread(r), 1, TimeUnit.MILLISECONDS, 512, false);
    }

    // Nothing expires: an hour is added to every delay.
    private void arm(HashedWheelTimer timer, List<Integer> inOrder, int extra) {
        int i = 0;
        for (final int k : inOrder) {
            timeouts[k] = timer.newTimeout(task, 3_600_000L + delays[i++] + extra, TimeUnit.MILLISECONDS);
        }
    }

    private void cancel() {
        for (final int k : otherOrder) {
            timeouts[k].cancel();
        }
    }

    private void report(String work, long nanoseconds) {
        if (!quiet) {
            System.out.printf("%s,%d,ns,netty,%.2f%n", work, timers, nanoseconds / (double) timers);
        }
    }

    private void time(String work, Runnable body) {
        final long begin = THREADS.getCurrentThreadCpuTime();
        body.run();
        report(work, THREADS.getCurrentThreadCpuTime() - begin);
    }

    // The worker takes in 100 000 new timers per tick.
    private void settle() throws InterruptedException {
        Thread.sleep(50 + timers / 10_000);
    }

    private void liveAndRearm() throws InterruptedException {
        final HashedWheelTimer timer = newTimer();
        timer.start();
        time("arm unlinked", () -> arm(timer, order, 0));
        settle();
        time("re-arm random", () -> {
            cancel();
            arm(timer, otherOrder, LONGEST);
        });
        settle();
        time("cancel", this::cancel);
        settle();
        timer.stop();
    }

    private void expire() throws InterruptedException {
        final CountDownLatch left = new CountDownLatch(timers);
        final HashedWheelTimer timer = newTimer();
        timer.start();
        final long begin = THREADS.getThreadCpuTime(worker.getId());
        for (final int k : order) {
            timer.newTimeout(t -> left.countDown(), 500 + delays[k] / 60, TimeUnit.MILLISECONDS);
        }
        left.await();
        report("expire", THREADS.getThreadCpuTime(worker.getId()) - begin);
        timer.stop();
    }

    private void run() throws InterruptedException {
        liveAndRearm();
        if (timers >= 100_000) { // of fewer, the worker's sleeping and waking is all that one would see
            expire();
        }
    }

    public static void main(String[] sizes) throws InterruptedException {
        for (int i = 0; i < 5; ++i) {
            new NettyTimers(100_000, true).run();
        }
        for (final String size : sizes) {
            for (int i = 0; i < REPETITIONS; ++i) {
                new NettyTimers(Integer.parseInt(size), false).run();
            }
        }
    }
}
