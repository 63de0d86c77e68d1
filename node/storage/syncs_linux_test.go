package storage

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/hashicorp/raft"
	linux "golang.org/x/sys/unix"

	"holdfast/test/skip"
)

// syncCounts is set in the process in which syncs are counted: the kernel cannot stop counting.
const syncCounts = "HOLDFAST_TEST_SYNCS"

// TestEachWriteOfTheLogIsSynced: when Raft's log store has accepted entries, a vote or a cut, the log's file was synced
// twice: after the data, and after the page that makes it valid.
func TestEachWriteOfTheLogIsSynced(t *testing.T) {
	if os.Getenv(syncCounts) == "" {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestEachWriteOfTheLogIsSynced$", "-test.v")
		child.Env = append(os.Environ(), syncCounts+"=1")
		out, err := child.CombinedOutput()
		if strings.Contains(string(out), "NOT RUN") {
			skip.Test(t, string(out))
		}
		if err != nil || !strings.Contains(string(out), "syncs were counted") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	d := mustOpenDir(t, t.TempDir())
	s, err := openStore(d, testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	counted := countSyncs(t, filepath.Join(d.path, LogFile))
	var logs raft.LogStore = s.logs
	for _, w := range []struct {
		name  string
		write func() error
	}{
		{"an entry", func() error { return logs.StoreLog(&raft.Log{Index: 1, Term: 1, Data: []byte("one")}) }},
		{"entries", func() error {
			return logs.StoreLogs([]*raft.Log{{Index: 2, Term: 1, Data: []byte("two")}, {Index: 3, Term: 1}})
		}},
		{"a cut", func() error { return logs.DeleteRange(1, 1) }},
		{"a vote", func() error { return s.stable.Set([]byte("LastVoteCand"), []byte("n2")) }},
		{"a term", func() error { return s.stable.SetUint64([]byte("CurrentTerm"), 7) }},
	} {
		before := counted.Load()
		if err := w.write(); err != nil {
			t.Errorf("%s: %v", w.name, err)
		}
		if n := counted.Load() - before; n < 2 {
			t.Errorf("%s: the log's file was synced %d times before the store said that it was written, want 2", w.name, n)
		}
	}
	fmt.Println("syncs were counted")
}

// countSyncs counts the syncs of the files at a path by all threads of this process, from now on. Each of them waits
// until it is counted.
func countSyncs(t *testing.T, path string) *atomic.Int64 {
	t.Helper()
	const nr, jumpIfEqual, load, ret = 0, linux.BPF_JMP | linux.BPF_JEQ | linux.BPF_K, linux.BPF_LD | linux.BPF_W | linux.BPF_ABS, linux.BPF_RET | linux.BPF_K
	filter := []linux.SockFilter{
		{Code: load, K: nr},
		{Code: jumpIfEqual, K: linux.SYS_FDATASYNC, Jt: 2},
		{Code: jumpIfEqual, K: linux.SYS_FSYNC, Jt: 1},
		{Code: ret, K: linux.SECCOMP_RET_ALLOW},
		{Code: ret, K: linux.SECCOMP_RET_USER_NOTIF},
	}
	program := linux.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := linux.Prctl(linux.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	listener, _, errno := linux.Syscall(linux.SYS_SECCOMP, linux.SECCOMP_SET_MODE_FILTER,
		linux.SECCOMP_FILTER_FLAG_NEW_LISTENER|linux.SECCOMP_FILTER_FLAG_TSYNC|linux.SECCOMP_FILTER_FLAG_TSYNC_ESRCH,
		uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		fmt.Println("NOT RUN: the kernel does not tell of system calls:", errno)
		t.FailNow()
	}
	counted := new(atomic.Int64)
	go func() {
		for {
			var call struct { // struct seccomp_notif
				id         uint64
				pid, flags uint32
				nr         int32
				arch       uint32
				ip         uint64
				args       [6]uint64
			}
			if _, _, errno := linux.Syscall(linux.SYS_IOCTL, listener, linux.SECCOMP_IOCTL_NOTIF_RECV,
				uintptr(unsafe.Pointer(&call))); errno != 0 {
				continue // the call was interrupted
			}
			if file, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", call.args[0])); err == nil && file == path {
				counted.Add(1)
			}
			goOn := struct { // struct seccomp_notif_resp
				id    uint64
				val   int64
				error int32
				flags uint32
			}{id: call.id, flags: linux.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
			_, _, _ = linux.Syscall(linux.SYS_IOCTL, listener, linux.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&goOn)))
		}
	}()
	return counted
}
