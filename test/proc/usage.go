package proc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	// ticks is the kernel's unit of processor time in /proc, USER_HZ: a hundredth of a second on every Linux.
	ticks = 100
	// utime and stime are fields of /proc/PID/stat, counted after the name of the program.
	utime, stime = 11, 12
)

// CPU returns the processor time that processes have used so far, in user mode and in the kernel. A process that has
// ended counts nothing.
func CPU(all ...*Process) time.Duration {
	var sum time.Duration
	for _, p := range all {
		if used, err := cpu(p.PID()); err == nil {
			sum += used
		}
	}
	return sum
}

func cpu(pid int) (time.Duration, error) {
	read, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStat(read)
}

// parseStat reads the two times. The name of the program, in parentheses, may have spaces and parentheses.
func parseStat(stat []byte) (time.Duration, error) {
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= stime {
		return 0, fmt.Errorf("/proc/PID/stat has %d fields behind the name, want more than %d", len(fields), stime)
	}
	var sum time.Duration
	for _, i := range []int{utime, stime} {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(n) * time.Second / ticks
	}
	return sum, nil
}

// standing returns nil once all threads of a process are stopped: their state, behind the name, is T.
func standing(pid int) error {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		return fmt.Errorf("process %d has no threads", pid)
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if err != nil {
			return err
		}
		if state := stat[bytes.LastIndexByte(stat, ')')+1:]; !bytes.HasPrefix(state, []byte(" T")) {
			return fmt.Errorf("%s: the thread runs", thread)
		}
	}
	return nil
}

// RSS returns the memory of processes that is in RAM, in bytes.
func RSS(all ...*Process) (int64, error) {
	var sum int64
	for _, p := range all {
		read, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
		if err != nil {
			return 0, err
		}
		kb, err := parseRSS(string(read))
		if err != nil {
			return 0, err
		}
		sum += kb << 10
	}
	return sum, nil
}

// parseRSS reads the line VmRSS of /proc/PID/status, in KiB.
func parseRSS(status string) (int64, error) {
	for line := range strings.Lines(status) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		}
	}
	return 0, fmt.Errorf("/proc/PID/status has no line VmRSS")
}
