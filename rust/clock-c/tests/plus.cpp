// The header in C++.
#include "ullage_clock.h"

int main() {
    ullage_instant now{};
    return ullage_global_now(&now) == ULLAGE_OK && now.ns > 0 ? 0 : 1;
}
