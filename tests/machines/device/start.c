/* Starts a program on a machine of qemu without an operating system: a Cortex-M or RISC-V. What it
 * says, and its status, go to the host by semihosting. */
#include <stdint.h>

extern uint32_t data_begin[], data_end[], data_image[], bss_begin[], bss_end[], stack_top[];

int main(void);
void board_say(const char* text);
_Noreturn void start(void);

enum { say = 0x04, leave = 0x18, well = 0x20026, badly = 0x20023 };  // operations, and reasons

/// Asks the host for an operation: the arguments are where the host looks for them.
void ask_host(uintptr_t operation, uintptr_t argument);
#ifdef __arm__
__asm__(".section .text.ask_host, \"ax\"\n.thumb_func\n.globl ask_host\n"
        "ask_host: bkpt 0xAB\nbx lr\n.text");
#else
__asm__(".section .text.ask_host, \"ax\"\n.balign 16\n.globl ask_host\n"
        ".option push\n.option norvc\n"
        "ask_host: slli x0, x0, 0x1f\nebreak\nsrai x0, x0, 7\nret\n.option pop\n.text");
#endif

void board_say(const char* text) { ask_host(say, (uintptr_t)text); }

_Noreturn void start(void) {
    const uint32_t* from = data_image;
    for (uint32_t* to = data_begin; to != data_end;) *to++ = *from++;
    for (uint32_t* to = bss_begin; to != bss_end;) *to++ = 0;
    ask_host(leave, main() == 0 ? well : badly);
    for (;;) {
    }
}

#ifdef __arm__
__attribute__((weak)) void SysTick_Handler(void);  // where a board has them
__attribute__((weak)) void on_timer_interrupt(void);

__attribute__((section(".first"), used)) static const uintptr_t vectors[] = {
    [0] = (uintptr_t)stack_top,
    [1] = (uintptr_t)start,
    [15] = (uintptr_t)SysTick_Handler,
    [16 + 8] = (uintptr_t)on_timer_interrupt,
};
#else
__asm__(".section .first, \"ax\"\n.globl first\nfirst: la sp, stack_top\nj start");
#endif
