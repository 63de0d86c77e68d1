package node

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
	"golang.org/x/time/rate"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/gate"
)

// The disk counts as full from disk_limit on, and has room again 5 percent lower. Memory refuses opens first, then
// resumes and writes. A touch is never refused, and the disks of others count only when a quorum needs them.
func TestRoom(t *testing.T) {
	var share float64
	var heap uint64
	var failing error
	var others []session.Node
	g := gate.New(gate.Config{})
	r := &room{
		node: 2, limit: 90, memory: Memory{Limit: 1000, From: MemoryFromSetting}, logger: hclog.NewNullLogger(), gate: g,
		measures: Measures{
			Disk: func() (float64, error) { return share, failing },
			Heap: func() uint64 { return heap },
		},
		others:     func() []session.Node { return others },
		disk:       threshold{at: 0.9, calm: calmDisk},
		opens:      threshold{at: shareOfOpens, calm: calmMemory},
		all:        threshold{at: shareOfAll, calm: calmMemory},
		complaints: rate.Sometimes{Interval: time.Hour},
	}
	const (
		disk   = "opens disk_limit, writes disk_limit"
		opens  = "opens memory_limit"
		memory = "opens memory_limit, resumes memory_limit, writes memory_limit"
	)
	for _, step := range []struct {
		share  float64
		heap   uint64
		others []session.Node
		err    error
		want   string
	}{
		{share: 0.899, heap: 799, want: ""},
		{share: 0.9, want: disk},
		{share: 0.86, want: disk},
		{share: 0.1, err: errors.New("no answer"), want: disk}, // nothing is known: what was known counts
		{share: 0.849, want: ""},
		{others: []session.Node{1, 3}, want: disk},
		{want: ""},
		{heap: 800, want: opens},
		{heap: 760, want: opens},
		{heap: 900, want: memory},
		{heap: 860, want: memory},
		{heap: 849, want: opens},
		{heap: 749, want: ""},
		{heap: 950, share: 0.95, want: "opens disk_limit, resumes memory_limit, writes disk_limit"},
	} {
		share, heap, others, failing = step.share, step.heap, step.others, step.err
		r.measureDisk()
		r.look()
		var got []string
		for k := range gate.Kinds {
			err := g.Admit(time.Now(), k, 1, gate.Caller{})
			if limit, ok := errors.AsType[*session.LimitError](err); ok {
				got = append(got, k.String()+" "+limit.Name)
			}
		}
		if now := strings.Join(got, ", "); now != step.want {
			t.Errorf("%+v: refused are %q, want %q", step, now, step.want)
		}
		if warned := r.warning() != ""; warned != (step.want != "") {
			t.Errorf("%+v: warning %q", step, r.warning())
		}
		if left := r.left(); (left != nil) != strings.Contains(step.want, "disk") {
			t.Errorf("%+v: the leader refuses with %v", step, left)
		}
		if full := r.full(); full && len(step.others) > 0 {
			t.Errorf("%+v: the disks of others make this one full", step)
		}
	}
}

// The share of a real file system lies between 0 and 1, and a directory that is not there has none.
func TestDiskUse(t *testing.T) {
	if share, err := diskUse(t.TempDir())(); err != nil || share < 0 || share > 1 {
		t.Errorf("got %v, %v", share, err)
	}
	if _, err := diskUse(t.TempDir() + "/none")(); err == nil && runtime.GOOS == "linux" {
		t.Error("a directory that is not there has no error")
	}
}

// While the disk gives no answer, what it said last counts, and memory and the disks of others are looked at.
func TestRoomOfADiskThatHangs(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		asked := 0
		hangs := make(chan struct{})
		var heap atomic.Uint64
		g := gate.New(gate.Config{})
		r := &room{
			node: 2, limit: 90, memory: Memory{Limit: 1000, From: MemoryFromSetting}, logger: hclog.NewNullLogger(), gate: g,
			measures: Measures{
				Disk: func() (float64, error) {
					if asked++; asked > 1 {
						<-hangs
						return 0.1, nil
					}
					return 0.95, nil
				},
				Heap: heap.Load,
			},
			interval: time.Second,
			others:   func() []session.Node { return nil },
			disk:     threshold{at: 0.9, calm: calmDisk},
			opens:    threshold{at: shareOfOpens, calm: calmMemory},
			all:      threshold{at: shareOfAll, calm: calmMemory},
		}
		ctx, cancel := context.WithCancel(t.Context())
		var parts sync.WaitGroup
		parts.Go(func() { _ = r.watchDisk(ctx) })
		parts.Go(func() { _ = r.run(ctx) })
		refused := func(k gate.Kind, want string) {
			t.Helper()
			name := ""
			if limit, ok := errors.AsType[*session.LimitError](g.Admit(time.Now(), k, 1, gate.Caller{})); ok {
				name = limit.Name
			}
			if name != want {
				t.Errorf("%v are refused by %q, want %q", k, name, want)
			}
		}
		time.Sleep(5 * time.Second)
		refused(gate.Opens, "disk_limit")
		refused(gate.Resumes, "")
		heap.Store(950)
		time.Sleep(2 * time.Second)
		refused(gate.Opens, "disk_limit")
		refused(gate.Resumes, "memory_limit")
		close(hangs)
		heap.Store(0)
		time.Sleep(3 * time.Second)
		refused(gate.Opens, "")
		refused(gate.Resumes, "")
		cancel()
		parts.Wait()
	})
}
