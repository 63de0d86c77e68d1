package transport

import (
	"runtime"
	"testing"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// heap returns how many bytes are reachable.
func heap() int {
	runtime.GC()
	runtime.GC() // the first one leaves what is pooled
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestWhatWaitsIsCountedAsItCosts: touches of sessions that live elsewhere, or have ended, are answered with far more than was asked.
func TestWhatWaitsIsCountedAsItCosts(t *testing.T) {
	ids := make([]session.ID, session.MaxTouchBatch)
	for i := range ids {
		ids[i] = session.ID(i + 1)
	}
	for name, refusal := range map[string]func(session.ID) error{
		"moved": func(session.ID) error { return session.ErrMoved },
		"ended": func(id session.ID) error {
			c := certificate(id)
			return &session.ExpiredError{ID: id, Certificate: &c}
		},
	} {
		o := newOutbox(4096, noState)
		before := heap()
		for o.bytes < maxOutgoingBytes*3/4 {
			failures := make([]session.TouchFailure, len(ids))
			for i, id := range ids {
				failures[i] = session.TouchFailure{ID: id, Err: refusal(id)}
			}
			o.add(&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Touched{Touched: &holdfastv1.Touched{Failures: failuresProto(failures)}}})
			if o.err() != nil {
				t.Fatalf("%s: one answer is more than a quarter of what may wait", name)
			}
		}
		if cost := heap() - before; cost < o.bytes/2 || cost > o.bytes*5/4 {
			t.Errorf("%s: %d bytes wait, %d are counted", name, cost, o.bytes)
		}
		runtime.KeepAlive(o)
	}
}
