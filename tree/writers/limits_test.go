package writers_test

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"

	"holdfast/tree/writers"
)

func everybody(uint64) bool { return true }

// write takes the next number of a session, which must be free, and keeps a result of so many bytes.
func write(tb testing.TB, table *writers.Table, session, acked uint64, size int) {
	tb.Helper()
	w, _ := table.Writer(session)
	if v, _ := table.Take(session, w.Applied+1, acked); v != writers.Apply {
		tb.Fatalf("write %d of session %d gets %v", w.Applied+1, session, v)
	}
	table.Keep(session, w.Applied+1, make([]byte, size))
}

// refused requires that the next write of a session gets Window and its number stays free.
func refused(t *testing.T, table *writers.Table, session, acked uint64) {
	t.Helper()
	before, _ := table.Writer(session)
	if v, _ := table.Take(session, before.Applied+1, acked); v != writers.Window {
		t.Errorf("session %d gets %v, want WINDOW", session, v)
	}
	if w, _ := table.Writer(session); w.Applied != before.Applied {
		t.Errorf("a refused write took number %d", w.Applied)
	}
}

// TestWindow: X3 with its own limits. A write that acknowledges enough goes through, whatever filled the window.
func TestWindow(t *testing.T) {
	table := writers.New(bag{}, writers.DefaultLimits())
	for range 256 {
		write(t, table, 1, 0, 0)
	}
	refused(t, table, 1, 0)
	write(t, table, 1, 1, 0)
	refused(t, table, 1, 1)

	write(t, table, 2, 0, 64<<10-33)
	write(t, table, 2, 0, 1<<20)
	refused(t, table, 2, 0)
	refused(t, table, 2, 1) // the large one is left
	write(t, table, 2, 2, 0)
}

// TestSharedLimit: above it, sessions that hold little write on, and those that hold more do once they acknowledge.
func TestSharedLimit(t *testing.T) {
	limits := writers.DefaultLimits()
	limits.Shared = 100_000
	table := writers.New(bag{}, limits)
	write(t, table, 1, 0, 60_000)
	if !table.Fits(1 << 20) {
		t.Error("below the limit, a large result does not fit")
	}
	write(t, table, 2, 0, 2_000)
	if err := table.SetWill(3, writers.Will{Data: make([]byte, 30_000)}); err != nil {
		t.Fatal(err)
	}
	write(t, table, 3, 0, 10_000)
	if table.Held() <= limits.Shared {
		t.Fatalf("%d bytes are not above the limit", table.Held())
	}
	refused(t, table, 1, 0)
	refused(t, table, 2, 0)
	refused(t, table, 3, 0)
	write(t, table, 4, 0, 1024-32) // holds nothing
	write(t, table, 4, 0, 0)       // holds no more than the spare
	refused(t, table, 4, 0)
	write(t, table, 2, 1, 10)

	if table.Fits(16<<10+1) || !table.Fits(16<<10) {
		t.Error("above the limit, a result fits by another bound than 16 KiB")
	}

	// A will alone keeps nobody from writing: it could not be taken back otherwise.
	write(t, table, 3, 1, 0)
	write(t, table, 5, 0, 40_000)
	write(t, table, 3, 2, 0)
	table.ClearWill(3)
}

// TestRoomForWills: wills cannot fill the replicas. The refusal names the room, and nothing changes.
func TestRoomForWills(t *testing.T) {
	limits := writers.DefaultLimits()
	limits.Shared = 100_000
	table := writers.New(bag{}, limits)
	if err := table.SetWill(1, writers.Will{Data: make([]byte, writers.MaxWill)}); err != nil {
		t.Fatal(err)
	}
	err := table.SetWill(2, writers.Will{Data: make([]byte, writers.MaxWill)})
	var limit *writers.LimitError
	if !errors.As(err, &limit) || limit.Field != "will" || limit.Most != 100_000-writers.MaxWill {
		t.Fatalf("a will without room: %v", err)
	}
	if _, ok := table.Will(2); ok {
		t.Error("a refused will is there")
	}
	if err = table.SetWill(2, writers.Will{Data: make([]byte, limit.Most)}); err != nil {
		t.Errorf("a will as large as the room: %v", err)
	}
	if err = table.SetWill(1, writers.Will{Data: make([]byte, writers.MaxWill), OnClose: true}); err != nil {
		t.Errorf("a will of the size of the one before: %v", err)
	}
	err = table.SetWill(1, writers.Will{Data: make([]byte, writers.MaxWill+1)})
	if err == nil || !strings.Contains(err.Error(), "73729") || !strings.Contains(err.Error(), "73728") {
		t.Errorf("a will above the limit: %v", err)
	}
}

// TestNoGarbage: results that were acknowledged one by one leave the memory, though the array that they lay in has a
// result that is still kept. Otherwise a session could hold megabytes of what it has acknowledged.
func TestNoGarbage(t *testing.T) {
	table := writers.New(bag{}, writers.DefaultLimits())
	for range 130 { // the array has room for dozens more
		write(t, table, 1, 0, 0)
	}
	table.Acknowledge(1, 129)
	before := heap()
	for acked := uint64(129); acked < 250; acked++ { // one result is always left
		write(t, table, 1, acked, 60<<10)
		if grown := heap() - before; grown > 1<<20 {
			t.Fatalf("a session with %d bytes takes %d", table.Held(), grown)
		}
	}
	runtime.KeepAlive(table)
}

// TestFrozenReaders: readers of frozen tables see what was there, while the table goes on. The race detector watches.
func TestFrozenReaders(t *testing.T) {
	table := writers.New(bag{}, writers.DefaultLimits())
	var readers sync.WaitGroup
	for round := range uint64(200) {
		write(t, table, 1, round-min(round, 3), 0)
		table.Moved(round % 3)
		root := table.Freeze()
		readers.Go(func() {
			w, _ := root.Writer(1)
			if w.Applied != round+1 {
				t.Errorf("frozen at %d, shows %d", round+1, w.Applied)
			}
			root.Records(func(one writers.Record) bool {
				if got := uint64(len(one.Results)); got != one.Applied-max(one.Acked, one.Floor) {
					t.Errorf("%d results with %+v", got, one.Writer)
				}
				for _, result := range one.Results {
					if !bytes.Equal(result, []byte{}) {
						t.Errorf("result %q", result)
					}
				}
				return true
			})
		})
	}
	readers.Wait()
}
