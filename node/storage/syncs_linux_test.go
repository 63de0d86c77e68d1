package storage

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/hashicorp/raft"
	linux "golang.org/x/sys/unix"

	"holdfast/test/skip"
)

// syncCounts is set in the process in which syncs are counted: the kernel cannot stop counting.
const syncCounts = "HOLDFAST_TEST_SYNCS"

// TestWritesAreSynced: when Raft's log has accepted entries, its segment was synced once. When the stable store
// has accepted a vote, or the list of segments a cut, its file was synced twice: after the data, and after the page that
// makes the data valid. A snapshot is synced in steps.
func TestWritesAreSynced(t *testing.T) {
	if os.Getenv(syncCounts) == "" {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWritesAreSynced$", "-test.v")
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
	counted := countSyncs(t, d.path)
	var logs raft.LogStore = s.logs
	for _, w := range []struct {
		name  string
		file  string // suffix of its path
		syncs int
		write func() error
	}{
		{"an entry", ".wal", 1, func() error { return logs.StoreLog(&raft.Log{Index: 1, Term: 1, Data: []byte("one")}) }},
		{"entries", ".wal", 1, func() error {
			return logs.StoreLogs([]*raft.Log{{Index: 2, Term: 1, Data: []byte("two")}, {Index: 3, Term: 1}})
		}},
		{"a cut", StableFile, 2, func() error { return logs.DeleteRange(1, 1) }},
		{"a vote", StableFile, 2, func() error { return s.stable.Set([]byte("LastVoteCand"), []byte("n2")) }},
		{"a term", StableFile, 2, func() error { return s.stable.SetUint64([]byte("CurrentTerm"), 7) }},
	} {
		counted.reset()
		if err = w.write(); err != nil {
			t.Errorf("%s: %v", w.name, err)
		}
		if n := counted.of(w.file); n != w.syncs {
			t.Errorf("%s: %s was synced %d times before the store said that it was written, want %d", w.name, w.file, n,
				w.syncs)
		}
	}
	counted.reset()
	s.origins.completed = func(snapshotMark) error { return nil }
	sink, err := s.origins.Create(raft.SnapshotVersionMax, 3, 1, raft.Configuration{}, 0, noTransport{})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err = sink.Write(make([]byte, snapshotSync)); err != nil {
			t.Fatal(err)
		}
		if n := counted.of(snapshotState); n != 1 {
			t.Errorf("%d bytes of a snapshot were synced %d times, want 1", snapshotSync, n)
		}
		counted.reset()
	}
	if err = sink.Close(); err != nil {
		t.Fatal(err)
	}
	if n := counted.of(snapshotState); n < 1 {
		t.Errorf("a complete snapshot was synced %d times after its last byte, want 1", n)
	}
	// The process before may have ended between a write and its sync.
	counted.reset()
	if err = s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = openStore(d, testOptions(t)); err != nil {
		t.Fatal(err)
	}
	if n := counted.of(".wal"); n < 1 {
		t.Errorf("the newest segment was synced %d times when the log was opened, want 1", n)
	}
	fmt.Println("syncs were counted")
}

// syncCounter has the paths of the synced files.
type syncCounter struct {
	mu    sync.Mutex
	paths []string // guarded by mu
}

func (c *syncCounter) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paths = nil
}

// of returns how many syncs there were of files with a suffix.
func (c *syncCounter) of(suffix string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, path := range c.paths {
		if strings.HasSuffix(path, suffix) {
			n++
		}
	}
	return n
}

// countSyncs counts the syncs of the files in a directory by all threads of this process, from now on. Each of them
// waits until it is counted.
func countSyncs(t *testing.T, dir string) *syncCounter {
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
	counted := &syncCounter{}
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
			if file, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", call.args[0])); err == nil && strings.HasPrefix(file, dir) {
				counted.mu.Lock()
				counted.paths = append(counted.paths, file)
				counted.mu.Unlock()
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
