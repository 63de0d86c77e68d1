package health

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/ratelimit"
)

// tenth is a disk of 1,000 bytes whose reserve is a tenth, by default.
func tenth(free uint64) Disk { return Disk{Size: 1000, Free: free} }

// The disk is full while less than its reserve is free, and until half as much again is free. Memory refuses opens
// first, then resumes and writes. A touch is never refused. Opens and writes are refused when no quorum has free space
// on its disks, and not because this one is full.
func TestResources(t *testing.T) {
	var free uint64
	var heap uint64
	var failing error
	var noRoom bool
	g := ratelimit.New(ratelimit.Config{})
	r := NewResources(ResourcesConfig{
		Memory: Memory{Limit: 1000, From: MemoryFromSetting}, Logger: hclog.NewNullLogger(), Limiter: g,
		DiskChanged: func() {},
		Measures: Measures{
			Disk: func() (Disk, error) { return tenth(free), failing },
			Heap: func() uint64 { return heap },
		},
		DisksFull: func() bool { return noRoom },
		FullDisks: func() []session.Node { return []session.Node{1, 3} },
	})
	const (
		disk   = "opens disk_limit, writes disk_limit"
		opens  = "opens memory_limit"
		memory = "opens memory_limit, resumes memory_limit, writes memory_limit"
	)
	for _, step := range []struct {
		free   uint64
		heap   uint64
		err    error
		noRoom bool
		full   bool
		want   string
	}{
		{free: 100, heap: 799, want: ""},
		{free: 99, full: true, want: ""},
		{free: 149, full: true, want: ""},
		{free: 900, err: errors.New("no answer"), full: true, want: ""}, // nothing is known: what was known counts
		{free: 99, full: true, noRoom: true, want: disk},
		{free: 150, want: ""},
		{free: 900, noRoom: true, want: disk},
		{free: 900, want: ""},
		{free: 900, heap: 800, want: opens},
		{free: 900, heap: 760, want: opens},
		{free: 900, heap: 900, want: memory},
		{free: 900, heap: 860, want: memory},
		{free: 900, heap: 849, want: opens},
		{free: 900, heap: 749, want: ""},
		{free: 50, heap: 950, full: true, noRoom: true, want: "opens disk_limit, resumes memory_limit, writes disk_limit"},
	} {
		free, heap, noRoom, failing = step.free, step.heap, step.noRoom, step.err
		r.measureDisk()
		r.setLimits()
		var got []string
		for k := range ratelimit.Kinds {
			err := g.Admit(time.Now(), k, 1, ratelimit.Caller{})
			if limit, ok := errors.AsType[*session.LimitError](err); ok {
				got = append(got, k.String()+" "+limit.Name)
			}
		}
		if now := strings.Join(got, ", "); now != step.want {
			t.Errorf("%+v: refused are %q, want %q", step, now, step.want)
		}
		if warned := r.Warning() != ""; warned != (step.full || step.want != "") {
			t.Errorf("%+v: warning %q", step, r.Warning())
		}
		if left := r.Refusal(); (left != nil) != strings.Contains(step.want, "disk") {
			t.Errorf("%+v: the leader refuses with %v", step, left)
		}
		if full := r.DiskFull(); full != step.full {
			t.Errorf("%+v: full is %t", step, full)
		}
	}
}

// No more is free on a real file system than it has, and a directory that is not there has none.
func TestDiskOf(t *testing.T) {
	if disk, err := DiskOf(t.TempDir()); err != nil || disk.Free > disk.Size {
		t.Errorf("got %+v, %v", disk, err)
	}
	if _, err := DiskOf(t.TempDir() + "/none"); err == nil && runtime.GOOS == "linux" {
		t.Error("a directory that is not there has no error")
	}
}

// A large disk is not full while 4 GiB are free, a small one while a tenth is free. A disk_limit counts as it stands,
// and a disk whose size is not known is never full.
func TestReserve(t *testing.T) {
	const gib = 1 << 30
	for _, of := range []struct {
		size  uint64
		limit int
		want  uint64
	}{
		{size: 1000 * gib, want: 4 * gib}, // a laptop's disk with 80 GiB free has room
		{size: 40 * gib, want: 4 * gib},
		{size: 10 * gib, want: gib},
		{size: 1000 * gib, limit: 90, want: 100 * gib},
		{size: 1000 * gib, limit: 1, want: 990 * gib},
		{size: 10 * gib, limit: 99, want: gib / 10},
		{size: 10 * gib, limit: 100},
		{size: 0},
	} {
		reserve := Disk{Size: of.size}.Reserve(of.limit)
		if reserve > of.want || of.want-reserve > 100 { // of whole percents
			t.Errorf("disk_limit %d of %d bytes: the reserve is %d bytes, want %d", of.limit, of.size, reserve, of.want)
		}
		disk := fullDisk{limit: of.limit}
		disk.update(Disk{of.size, 0})
		if full, _ := disk.update(Disk{of.size, of.size}); full {
			t.Errorf("disk_limit %d of %d bytes: a disk that was full is full when it is empty", of.limit, of.size)
		}
		for _, at := range []struct {
			free uint64
			full bool
		}{{reserve, false}, {0, reserve > 0}} {
			disk := fullDisk{limit: of.limit}
			if full, _ := disk.update(Disk{of.size, at.free}); full != at.full {
				t.Errorf("disk_limit %d: with %d of %d bytes free the disk is full: %t", of.limit, at.free, of.size, full)
			}
		}
	}
}

// While the disk gives no answer, what it said last counts, and memory and the disks of others are looked at.
func TestADiskThatDoesNotAnswer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		asked := 0
		hangs := make(chan struct{})
		var heap atomic.Uint64
		g := ratelimit.New(ratelimit.Config{})
		var r *Resources
		r = NewResources(ResourcesConfig{
			Memory: Memory{Limit: 1000, From: MemoryFromSetting}, Logger: hclog.NewNullLogger(), Limiter: g,
			DiskChanged: func() {},
			Measures: Measures{
				Disk: func() (Disk, error) {
					if asked++; asked > 1 {
						<-hangs
						return tenth(900), nil
					}
					return tenth(50), nil
				},
				Heap: heap.Load,
			},
			Interval:  time.Second,
			DisksFull: func() bool { return r.DiskFull() }, // no other node votes
			FullDisks: func() []session.Node { return []session.Node{2} },
		})
		ctx, cancel := context.WithCancel(t.Context())
		var parts sync.WaitGroup
		parts.Go(func() { _ = r.WatchDisk(ctx) })
		parts.Go(func() { _ = r.Run(ctx) })
		refused := func(k ratelimit.Kind, want string) {
			t.Helper()
			name := ""
			if limit, ok := errors.AsType[*session.LimitError](g.Admit(time.Now(), k, 1, ratelimit.Caller{})); ok {
				name = limit.Name
			}
			if name != want {
				t.Errorf("%v are refused by %q, want %q", k, name, want)
			}
		}
		time.Sleep(5 * time.Second)
		refused(ratelimit.Opens, "disk_limit")
		refused(ratelimit.Resumes, "")
		heap.Store(950)
		time.Sleep(2 * time.Second)
		refused(ratelimit.Opens, "disk_limit")
		refused(ratelimit.Resumes, "memory_limit")
		close(hangs)
		heap.Store(0)
		time.Sleep(3 * time.Second)
		refused(ratelimit.Opens, "")
		refused(ratelimit.Resumes, "")
		cancel()
		parts.Wait()
	})
}
