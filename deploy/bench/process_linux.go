package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// family returns a process and all its descendants.
func family(pid int) []int {
	children := map[int][]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has ended meanwhile
		}
		// The name before it, in parentheses, may hold spaces.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) > 1 {
			parent, _ := strconv.Atoi(fields[1])
			children[parent] = append(children[parent], child)
		}
	}
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

// cpuOf is the processor time that processes have used.
func cpuOf(pids []int) (sum time.Duration) {
	const schedClock = 2 // CPUCLOCK_SCHED: another process's clock is ^pid<<3 | 2, see clock_getcpuclockid(3)
	for _, pid := range pids {
		var ts syscall.Timespec
		id := ^int32(pid)<<3 | schedClock
		if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, uintptr(id), uintptr(unsafe.Pointer(&ts)), 0); errno == 0 {
			sum += time.Duration(ts.Nano())
		}
	}
	return sum
}

// memoryOf is the resident memory of processes in bytes; pages they share count for each.
func memoryOf(pids []int) (sum int64) {
	for _, pid := range pids {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		if f := strings.Fields(string(b)); len(f) > 1 {
			pages, _ := strconv.ParseInt(f[1], 10, 64)
			sum += pages * int64(os.Getpagesize())
		}
	}
	return sum
}

// busy is the time that all processors together were not idle.
func busy() (sum time.Duration) {
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux
	b, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(b), "\n")
	for i, f := range strings.Fields(line) {
		// cpu user nice system idle iowait irq softirq steal; what follows is counted in user.
		if i == 0 || i == 4 || i == 5 || i > 8 {
			continue
		}
		n, _ := strconv.ParseInt(f, 10, 64)
		sum += time.Duration(n) * tick
	}
	return sum
}
