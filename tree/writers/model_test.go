package writers_test

import (
	"bytes"
	"errors"
	"maps"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"holdfast/tree/writers"
)

// small lets histories of a few dozen steps reach every limit.
func small() writers.Limits {
	return writers.Limits{Results: 5, Bytes: 400, AllResults: 1400, AllWills: 1400, Spare: 100, Large: 50}
}

// history makes steps in a table and in the plain one, and requires that both do the same.
type history struct {
	table  *writers.Table
	digest bag
	want   *plain
}

func newHistory() *history {
	digest := bag{}
	return &history{table: writers.New(digest, small()), digest: digest, want: newPlain(small())}
}

// drawNumber draws numbers around what counts: the newest applied one and the ends of the range.
func drawNumber(t *rapid.T, label string, applied uint64) uint64 {
	return rapid.OneOf(
		rapid.SampledFrom([]uint64{applied + 1, applied + 1, applied + 1, applied, applied - 1, applied + 2}),
		rapid.Uint64Range(0, applied+2),
		rapid.SampledFrom([]uint64{0, 1, math.MaxInt64, math.MaxUint64 - 1, math.MaxUint64}),
	).Draw(t, label)
}

// drawAcked draws mostly numbers that leave results.
func drawAcked(t *rapid.T, applied uint64) uint64 {
	return rapid.OneOf(
		rapid.Just(uint64(0)),
		rapid.Uint64Range(0, applied),
		rapid.SampledFrom([]uint64{applied, applied + 1, math.MaxInt64, math.MaxUint64}),
	).Draw(t, "acked")
}

func (h *history) step(t *rapid.T) {
	session := rapid.Uint64Range(1, 4).Draw(t, "session")
	w, _ := h.table.Writer(session)
	switch rapid.IntRange(0, 9).Draw(t, "what") {
	case 0:
		upTo := drawAcked(t, w.Applied)
		h.table.Acknowledge(session, upTo)
		h.want.acknowledge(session, upTo)
	case 1:
		applied, floor := h.table.Moved(session)
		if a, f := h.want.moved(session); a != applied || f != floor {
			t.Fatalf("moved: applied %d, floor %d, want %d, %d", applied, floor, a, f)
		}
	case 2:
		if got, want := h.table.End(session), h.want.end(session); !reflect.DeepEqual(got, want) {
			t.Fatalf("end: %+v, want %+v", got, want)
		}
	default:
		h.write(t, session, drawNumber(t, "number", w.Applied), drawAcked(t, w.Applied))
	}
}

func (h *history) write(t *rapid.T, session, number, acked uint64) {
	verdict, result := h.table.Admit(session, number, acked)
	if v, r := h.want.take(session, number, acked); v != verdict || r != string(result) {
		t.Fatalf("take %d: %v %q, want %v %q", number, verdict, result, v, r)
	}
	if verdict != writers.Apply {
		return
	}
	principal := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "principal")
	for _, most := range []int{50, 51} {
		if got, want := h.table.Fits(principal, most), most <= 50 || !h.want.above(principal); got != want {
			t.Fatalf("a result of %d bytes fits: %v, want %v", most, got, want)
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "bequeaths") == 0 {
		h.bequeath(t, session, principal)
	}
	kept := bytes.Repeat([]byte{byte(number)}, rapid.SampledFrom([]int{0, 1, 10, 100, 500}).Draw(t, "size"))
	h.table.Keep(session, number, principal, kept)
	h.want.keep(session, number, principal, string(kept))
}

func (h *history) bequeath(t *rapid.T, session uint64, principal string) {
	if rapid.IntRange(0, 3).Draw(t, "clears") == 0 {
		h.table.ClearWill(session)
		if w := h.want.sessions[session]; w != nil {
			w.will = nil
		}
		return
	}
	will := writers.Will{
		Data:    make([]byte, rapid.SampledFrom([]int{0, 5, 200, 800, writers.MaxWill + 1}).Draw(t, "will")),
		OnClose: rapid.Bool().Draw(t, "on close"),
	}
	err := h.table.SetWill(session, principal, will)
	if taken := h.want.setWill(session, principal, will); taken != (err == nil) {
		t.Fatalf("set a will of %d bytes: %v, want taken %v", len(will.Data), err, taken)
	}
	var limit *writers.LimitError
	if err != nil && (!errors.As(err, &limit) || limit.Has <= limit.Max) {
		t.Fatalf("refused with %v", err)
	}
}

func recordsOf(r *writers.Root) (all []writers.Record) {
	r.Records(func(one writers.Record) bool {
		all = append(all, one)
		return true
	})
	return all
}

// same requires that a root is what the plain table is.
func same(t *rapid.T, what string, got *writers.Root, want *plain) {
	t.Helper()
	all := want.records()
	if has := recordsOf(got); len(has) != len(all) {
		t.Fatalf("%s: %d records, want %d", what, len(has), len(all))
	}
	for i, one := range recordsOf(got) {
		w := all[i]
		if one.Session != w.Session || one.Writer != w.Writer || one.Principal != w.Principal ||
			!reflect.DeepEqual(one.Will, w.Will) ||
			len(one.Results) != len(w.Results) {
			t.Fatalf("%s: record %+v, want %+v", what, one, w)
		}
		for n := range one.Results {
			if !bytes.Equal(one.Results[n], w.Results[n]) {
				t.Fatalf("%s: result %d is %q, want %q", what, n, one.Results[n], w.Results[n])
			}
		}
	}
	results, wills, _, _ := want.held("")
	if got.Held() != results+wills || got.Len() != len(want.sessions) {
		t.Fatalf("%s: %d writers hold %d, want %d and %d", what, got.Len(), got.Held(), len(want.sessions), results+wills)
	}
	sameReads(t, what, got, want)
}

// sameReads requires that look-ups show what the plain table has.
func sameReads(t *rapid.T, what string, got *writers.Root, want *plain) {
	t.Helper()
	for session := range uint64(6) {
		w := want.sessions[session]
		has, ok := got.Writer(session)
		if ok != (w != nil) {
			t.Fatalf("%s: session %d has a writer: %v", what, session, ok)
		}
		if w == nil {
			w = &plainWriter{}
		}
		if has != (writers.Writer{Applied: w.applied, Floor: w.floor, Acked: w.acked}) {
			t.Fatalf("%s: session %d has %+v, want %+v", what, session, has, w)
		}
		if will, ok := got.Will(session); ok != (w.will != nil) || ok && !reflect.DeepEqual(will, *w.will) {
			t.Fatalf("%s: session %d has will %+v, want %+v", what, session, will, w.will)
		}
		for _, number := range []uint64{0, w.floor, w.acked, w.acked + 1, w.applied, w.applied + 1, math.MaxUint64} {
			result, ok := got.Result(session, number)
			if kept, is := w.results[number]; is != ok || kept != string(result) {
				t.Fatalf("%s: result %d of session %d is %q, %v, want %q", what, number, session, result, ok, kept)
			}
		}
	}
}

// TestModel: whatever happens, the table is what the plain one is, and its digest fits. What was frozen stays.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory()
		frozen, was := h.table.Freeze(), h.want.clone()
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			h.step(t)
			same(t, "now", &h.table.Root, h.want)
			same(t, "frozen", frozen, was)
			if !maps.Equal(h.digest, h.want.digest()) {
				t.Fatalf("the digest has %v, want %v", h.digest, h.want.digest())
			}
			if rapid.IntRange(0, 4).Draw(t, "freezes") == 0 {
				frozen, was = h.table.Freeze(), h.want.clone()
			}
		}
	})
}

// TestNumbersAtTheEndOfTheRange: a session that has used up all numbers gets no new one.
func TestNumbersAtTheEndOfTheRange(t *testing.T) {
	r := writers.NewRestorer(bag{}, writers.DefaultLimits(), everybody)
	newest := uint64(math.MaxUint64)
	if err := r.Add(writers.Record{
		Session: 1, Writer: writers.Writer{Applied: newest - 1, Acked: newest - 2}, Results: [][]byte{[]byte("x")},
	}); err != nil {
		t.Fatal(err)
	}
	table := r.Table()
	if v, _ := table.Admit(1, newest, 0); v != writers.Apply {
		t.Fatalf("the last number gets %v", v)
	}
	table.Keep(1, newest, "", []byte("y"))
	for number, want := range map[uint64]writers.Verdict{
		0: writers.Unknown, 1: writers.Unknown, newest - 2: writers.Unknown, newest - 1: writers.Repeat,
		newest: writers.Repeat,
	} {
		if got, _ := table.Admit(1, number, 0); got != want {
			t.Errorf("number %d gets %v, want %v", number, got, want)
		}
	}
	if got, _ := table.Admit(1, newest, newest); got != writers.Unknown {
		t.Errorf("an acknowledged write gets %v", got)
	}
}

// TestKeepOutOfTurn: a number that Take did not give is a defect of the caller.
func TestKeepOutOfTurn(t *testing.T) {
	for _, number := range []uint64{0, 2, math.MaxUint64} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("keep takes number %d first", number)
				}
			}()
			writers.New(bag{}, writers.DefaultLimits()).Keep(1, number, "", nil)
		}()
	}
}

func TestVerdictNames(t *testing.T) {
	for v, want := range map[writers.Verdict]string{
		0: "verdict 0", writers.Apply: "APPLY", writers.Repeat: "REPEAT", writers.Unknown: "UNKNOWN",
		writers.Gap: "GAP", writers.Window: "WINDOW", 9: "verdict 9",
	} {
		if v.String() != want {
			t.Errorf("%d is %v, want %s", uint8(v), v, want)
		}
	}
}
