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

// write applies the next number of a session, which must be free, and keeps a result of so many bytes. The principal of
// a session is principalOf.
func write(tb testing.TB, table *writers.Table, session, acked uint64, size int) {
	tb.Helper()
	w, _ := table.Writer(session)
	if v, _ := table.Admit(session, w.Applied+1, acked); v != writers.Apply {
		tb.Fatalf("write %d of session %d gets %v", w.Applied+1, session, v)
	}
	table.Keep(session, w.Applied+1, principalOf(session), make([]byte, size))
}

// principalOf says that ten sessions in a row have one principal.
func principalOf(session uint64) string { return string(rune('a' + session/10%26)) }

func setWill(table *writers.Table, session uint64, size int) error {
	return table.SetWill(session, principalOf(session), writers.Will{Data: make([]byte, size)})
}

// refused requires that the next write of a session gets Window and its number stays free.
func refused(t *testing.T, table *writers.Table, session, acked uint64) {
	t.Helper()
	before, _ := table.Writer(session)
	if v, _ := table.Admit(session, before.Applied+1, acked); v != writers.Window {
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

// TestShareOfResults: one principal may have half of the memory. Above that its sessions that hold little write on, and
// those that hold more do once they acknowledge. Others have what is left.
func TestShareOfResults(t *testing.T) {
	limits := writers.DefaultLimits()
	limits.AllResults = 120_000
	table := writers.New(bag{}, limits)
	write(t, table, 1, 0, 50_000)
	if !table.Fits("a", 1<<20) {
		t.Error("below its share, a large result of a principal does not fit")
	}
	write(t, table, 2, 0, 2_000)
	write(t, table, 3, 0, 10_000)
	refused(t, table, 1, 0)
	refused(t, table, 2, 0)
	refused(t, table, 3, 0)
	write(t, table, 4, 0, 1024-32) // holds nothing
	write(t, table, 4, 0, 0)       // holds no more than the spare
	refused(t, table, 4, 0)
	write(t, table, 2, 1, 10)
	if table.Fits("a", 16<<10+1) || !table.Fits("a", 16<<10) {
		t.Error("above its share, a result of a principal fits by another bound than 16 KiB")
	}

	// Another principal notices nothing, until what is left is less than it has.
	for _, b := range []uint64{11, 12, 13} {
		if write(t, table, b, 0, 10_000); !table.Fits("b", 1<<20) != (b == 13) {
			t.Errorf("session %d: a large result of another principal fits: %v", b, table.Fits("b", 1<<20))
		}
	}
	refused(t, table, 11, 0)
	if !table.Fits("c", 1<<20) {
		t.Error("a large result of a third principal does not fit")
	}
	table.End(1)
	write(t, table, 11, 0, 10)
	// What a session holds follows its principal.
	w, _ := table.Writer(13)
	table.Keep(13, w.Applied+1, "c", nil)
	if table.Principal(13) != "c" || table.Principal(14) != "" {
		t.Errorf("the principals are %q and %q", table.Principal(13), table.Principal(14))
	}
}

// TestShareOfWills: one principal may fill half of the memory with wills. The refusal names the principal's limit, and
// nothing changes. Wills keep nobody from writing, and others have what is left.
func TestShareOfWills(t *testing.T) {
	limits := writers.DefaultLimits()
	limits.AllWills, limits.AllResults = 200_000, 1000
	table := writers.New(bag{}, limits)
	if err := setWill(table, 1, writers.MaxWill); err != nil {
		t.Fatal(err)
	}
	err := setWill(table, 2, writers.MaxWill)
	var limit *writers.LimitError
	if !errors.As(err, &limit) || limit.Field != "will" || limit.Max != 100_000-writers.MaxWill {
		t.Fatalf("a will without room: %v", err)
	}
	if _, ok := table.Will(2); ok {
		t.Error("a refused will is there")
	}
	if err = setWill(table, 2, int(limit.Max)); err != nil {
		t.Errorf("a will as large as the room: %v", err)
	}
	if err = setWill(table, 3, 1); !errors.As(err, &limit) || limit.Max != 0 {
		t.Errorf("a will above the share: %v", err)
	}
	if err = setWill(table, 1, writers.MaxWill); err != nil {
		t.Errorf("a will of the size of the one before: %v", err)
	}
	err = setWill(table, 1, writers.MaxWill+1)
	if err == nil || !strings.Contains(err.Error(), "73729") || !strings.Contains(err.Error(), "73728") {
		t.Errorf("a will above the limit: %v", err)
	}
	if !table.Fits("a", 1<<20) {
		t.Error("wills leave no room for a result")
	}
	if err = setWill(table, 11, 50_000); err != nil {
		t.Errorf("a will of another principal: %v", err)
	}
	if err = setWill(table, 12, 1); !errors.As(err, &limit) || limit.Max != 0 {
		t.Errorf("a will of another principal that has as much as is left: %v", err)
	}
	if err = setWill(table, 21, 25_000); err != nil {
		t.Errorf("a will of a third principal: %v", err)
	}
	table.ClearWill(1)
	if err = setWill(table, 12, 1); err != nil {
		t.Errorf("with room again: %v", err)
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

// TestFrozenReaders: readers of frozen tables see the frozen state, while the table changes. The race detector watches.
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
