package writes

import (
	"testing"

	"holdfast/tree/writers"
)

// forgetful is a digest that keeps nothing.
type forgetful struct{}

func (forgetful) Add([]byte)    {}
func (forgetful) Remove([]byte) {}

// replica holds the model's replicated state against package writers.
type replica struct {
	*testing.T
	table *writers.Table
	// compared counts the writes with each verdict.
	compared map[verdict]int
}

func verdictOf(v writers.Verdict) verdict {
	return map[writers.Verdict]verdict{
		writers.Apply: applied, writers.Repeat: repeat, writers.Unknown: unknown, writers.Gap: gap,
		writers.Window: window,
	}[v]
}

const theSession = 7

// apply does with the table what the model has done.
func (r *replica) apply(e entry) {
	r.Helper()
	switch e.Kind {
	case write:
		r.compared[e.Verdict]++
		if e.Verdict == fenced { // the caller's part (W3 attachment check)
			return
		}
		v, result := r.table.Admit(theSession, uint64(e.Number), uint64(e.Acked))
		if verdictOf(v) != e.Verdict {
			r.Fatalf("%v: %v, the model says %v", e.command, v, e.Verdict)
		}
		if v == writers.Repeat && (len(result) != 1 || result[0] != byte(e.Result)) {
			r.Fatalf("%v: result %v, the model says %d", e.command, result, e.Result)
		}
		if v == writers.Apply {
			r.table.Keep(theSession, uint64(e.Number), "", []byte{byte(e.Result)})
		}
	case acknowledge:
		r.table.Acknowledge(theSession, uint64(e.Acked))
	case move:
		r.table.Moved(theSession)
	}
}

// same requires that the table has what the model's state has.
func (r *replica) same(h *head) {
	r.Helper()
	w, _ := r.table.Writer(theSession)
	want := writers.Writer{Applied: uint64(h.Applied), Floor: uint64(h.Floor), Acked: uint64(h.Acked)}
	if w != want {
		r.Fatalf("the writer has %+v, the model's has %+v", w, want)
	}
	for n, kept := range h.Kept {
		result, ok := r.table.Result(theSession, uint64(n))
		if ok != (kept != 0) || ok && result[0] != byte(kept) {
			r.Fatalf("result %d is %v, %v, the model's is %d", n, result, ok, kept)
		}
	}
}

// The state of the model is that of package writers, in every history: the results of the searches hold for the state
// that replicas have.
func TestTheStateIsThatOfPackageWriters(t *testing.T) {
	compared := map[verdict]int{}
	for _, scope := range wides {
		limit := writers.DefaultLimits()
		limit.Results = int(scope.Window)
		x := newStep(scope, 0)
		m := x.machine(All)
		for seed := range uint64(500) {
			history, _ := m.Once(seed)
			r := replica{T: t, table: writers.New(forgetful{}, limit), compared: compared}
			x.watch = r.apply
			now := m.First
			for _, event := range history {
				m.Try(&now, event)
				r.same(&now.Head)
			}
			x.watch = nil
			last := r.table.End(theSession)
			if last.Applied != uint64(now.Head.Applied) || last.Floor != uint64(now.Head.Floor) {
				t.Fatalf("the certificate has %+v, the model's %d and %d", last, now.Head.Applied, now.Head.Floor)
			}
		}
	}
	t.Logf("compared %v", compared)
	for _, v := range []verdict{applied, repeat, gap, window, fenced} {
		if compared[v] == 0 {
			t.Errorf("no write was %v", v)
		}
	}
}
