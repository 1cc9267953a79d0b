/* Start-up of a Cortex-M4F under qemu-system-arm -M mps2-an386: the vector table, and the floating-point
   unit on. newlib's rdimon start-up does the rest; what is printed goes to the host (semihosting). */
#include <stdint.h>

extern void _start(void);
void start(void);
void fault(void);

void start(void) {
    *(volatile uint32_t *)0xE000ED88u |= 0xFu << 20; /* CPACR: coprocessors 10 and 11 */
    __asm volatile("dsb\n\tisb");
    _start();
}

/* SYS_EXIT, anything but ADP_Stopped_ApplicationExit: qemu ends with status 1. */
void fault(void) {
    register uint32_t operation __asm("r0") = 0x18, reason __asm("r1") = 0x20023;
    __asm volatile("bkpt 0xab" : : "r"(operation), "r"(reason) : "memory");
    for (;;) {}
}

__attribute__((section(".vectors"), used)) static void (*const vectors[16])(void) = {
    (void (*)(void))0x20400000, start, fault, fault, fault, fault, fault};

/* newlib calls these. */
void _init(void);
void _fini(void);
void _init(void) {}
void _fini(void) {}
