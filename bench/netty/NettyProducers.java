// What Netty's HashedWheelTimer costs threads that set and cancel timers, in the rows of
// bench/mailbox: nanoseconds per call of newTimeout and of cancel, with 1, 2 and 4 threads, and
// by how much a timeout of a millisecond is late meanwhile.
//
//     java -cp netty-common.jar:jctools-core.jar NettyProducers.java

import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import io.netty.util.TimerTask;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

public final class NettyProducers {
    private static final int BATCH = 1_000;
    private static final int ROUNDS = 300;
    private static final TimerTask NOTHING = timeout -> { };

    private final HashedWheelTimer timer = new HashedWheelTimer(1, TimeUnit.MILLISECONDS, 512);
    private final AtomicLong scheduling = new AtomicLong();
    private final AtomicLong cancelling = new AtomicLong();
    private final List<Long> late = new ArrayList<>(); // of the timer's thread, until it is stopped

    private volatile boolean over;

    private void beat() {
        if (over) {
            return;
        }
        final long due = System.nanoTime() + 1_000_000L;
        timer.newTimeout(t -> {
            late.add(System.nanoTime() - due);
            beat();
        }, 1, TimeUnit.MILLISECONDS);
    }

    private void produce() {
        final Timeout[] timeouts = new Timeout[BATCH];
        for (int round = 0; round < ROUNDS; ++round) {
            final long begin = System.nanoTime();
            for (int i = 0; i < BATCH; ++i) {
                timeouts[i] = timer.newTimeout(NOTHING, 30_000 + 37L * i % 30_000, TimeUnit.MILLISECONDS);
            }
            final long middle = System.nanoTime();
            for (final Timeout timeout : timeouts) {
                timeout.cancel();
            }
            cancelling.addAndGet(System.nanoTime() - middle);
            scheduling.addAndGet(middle - begin);
        }
    }

    private double late(long[] sorted, double share) {
        return sorted.length == 0 ? 0 : sorted[(int) (share * (sorted.length - 1))] / 1e3;
    }

    private void run(int producers, boolean quiet) throws InterruptedException {
        beat();
        final Thread[] threads = new Thread[producers];
        for (int i = 0; i < producers; ++i) {
            threads[i] = new Thread(this::produce);
            threads[i].start();
        }
        for (final Thread thread : threads) {
            thread.join();
        }
        over = true; // nothing may be set once the timer is stopped
        Thread.sleep(10);
        timer.stop();
        final long[] sorted = late.stream().mapToLong(Long::longValue).toArray();
        Arrays.sort(sorted);
        final double calls = (double) BATCH * ROUNDS * producers;
        if (!quiet) {
            System.out.printf("| %d | Netty | %.0f | %.0f | - | %.0f | %.0f | %.0f |%n", producers,
                    scheduling.get() / calls, cancelling.get() / calls, late(sorted, 0.5),
                    late(sorted, 0.99), late(sorted, 1));
        }
    }

    public static void main(String[] none) throws InterruptedException {
        for (int i = 0; i < 5; ++i) {
            new NettyProducers().run(2, true);
        }
        for (final int producers : new int[] {1, 2, 4}) {
            new NettyProducers().run(producers, false);
        }
    }
}
