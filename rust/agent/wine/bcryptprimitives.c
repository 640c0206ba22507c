/* Rust's standard library for Windows asks bcryptprimitives.dll for random bytes. Windows has it since
   version 10; Wine 8.0, of Debian 12, has not, so this stands beside the agent there. */

#include <windows.h>

/* As RtlGenRandom is exported. */
BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG length);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE buffer, SIZE_T length) {
    while (length > 0) {
        ULONG part = length > 4096 ? 4096 : (ULONG)length;
        if (!SystemFunction036(buffer, part)) return FALSE;
        buffer += part;
        length -= part;
    }
    return TRUE;
}
