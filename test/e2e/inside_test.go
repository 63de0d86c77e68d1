//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// programs are what this test's program does in a container, under a "holdfast" that is process 1 there. Each returns
// the exit code.
var programs = map[string]func() int{
	"fails": fails, "dies": dies, "polite": polite, "orphans": orphans, "parent": parent, "orphan": orphan,
}

const (
	// exitOfFails and exitOfPolite are exit codes that nothing else has.
	exitOfFails, exitOfPolite = 7, 5
	// orphanCount is how many orphans are left to process 1.
	orphanCount = 20
	// orphansWithin bounds the wait for them to be gone.
	orphansWithin = 10 * time.Second
)

func fails() int { return exitOfFails }

func dies() int {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// polite runs until a SIGTERM, and then takes a moment to put its things in order.
func polite() int {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGTERM)
	fmt.Println("runs")
	<-heard
	fmt.Println("puts in order")
	time.Sleep(time.Second) // the work
	fmt.Println("is in order")
	return exitOfPolite
}

// orphans leaves processes to process 1, in a session of their own, and fails unless they are all gone soon: a process
// that has ended and was not reaped stays in /proc.
func orphans() int {
	var left []int
	for range orphanCount {
		out, err := as("parent").Output()
		pid, failed := strconv.Atoi(strings.TrimSpace(string(out)))
		if err != nil || failed != nil {
			fmt.Println("a parent:", err, failed)
			return 1
		}
		left = append(left, pid)
	}
	for by := time.Now().Add(orphansWithin); time.Now().Before(by); time.Sleep(10 * time.Millisecond) {
		there := 0
		for _, pid := range left {
			if _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid))); err == nil {
				there++
			}
		}
		if there == 0 {
			fmt.Println(len(left), "orphans are gone")
			return 0
		}
	}
	fmt.Println("orphans are not reaped")
	return 1
}

// parent starts an orphan, says which process it is, and ends.
func parent() int {
	cmd := as("orphan")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(cmd.Process.Pid)
	return 0
}

// orphan ends once it is process 1's.
func orphan() int {
	for os.Getppid() != 1 {
		time.Sleep(time.Millisecond)
	}
	return 0
}

// as returns a process of this program with another part to play.
func as(part string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), workerVar+"="+part)
	return cmd
}
