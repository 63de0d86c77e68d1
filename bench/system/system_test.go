package system

import (
	"encoding/hex"
	"errors"
	"testing"

	holdfastv1 "holdfast/proto/holdfast/v1"
)

func TestEtcdWire(t *testing.T) {
	if got := hex.EncodeToString(*numbers(40, 0, 300)); got != "082818ac02" {
		t.Errorf("fields 1 and 3 are %s, want 082818ac02", got)
	}
	id, ttl, err := lease(*numbers(0, -5, 40))
	if id != -5 || ttl != 40 || err != nil {
		t.Errorf("got %d, %d, %v, want the negative id -5 and 40", id, ttl, err)
	}
	if _, _, err := lease(raw{0x08}); err == nil {
		t.Error("a field without its value is accepted")
	}
}

func TestResumed(t *testing.T) {
	all := []Session{&Held{ID: 1}, &Held{ID: 2}, &Held{ID: 3}, &Held{ID: 4, Attachment: 7}}
	fails := func(id uint64, reason holdfastv1.Reason) *holdfastv1.TouchFailure {
		return &holdfastv1.TouchFailure{Id: id, Error: &holdfastv1.ErrorDetail{Reason: reason}}
	}
	left, expired, err := resumed(all, &holdfastv1.ResumedSessions{
		Attachments: []uint64{11, 0, 0, 0},
		Failures: []*holdfastv1.TouchFailure{
			fails(2, holdfastv1.Reason_REASON_SESSION_EXPIRED), fails(3, holdfastv1.Reason_REASON_NO_LEADER),
			fails(4, holdfastv1.Reason_REASON_OUTCOME_UNKNOWN),
		},
	})
	if len(left) != 2 || left[0] != all[2] || left[1] != all[3] || expired != 1 {
		t.Errorf("left %v, expired %d, want the last two and one", left, expired)
	}
	if _, again := errors.AsType[*RefusedError](err); !again {
		t.Errorf("error is %v, want one that comes back", err)
	}
	if got := all[0].(*Held).Attachment; got != 11 {
		t.Errorf("attachment is %d, want the new one, 11", got)
	}
	_, _, err = resumed(all[:1], &holdfastv1.ResumedSessions{
		Attachments: []uint64{0}, Failures: []*holdfastv1.TouchFailure{fails(1, holdfastv1.Reason_REASON_SESSION_MOVED)},
	})
	if _, again := errors.AsType[*RefusedError](err); err == nil || again {
		t.Errorf("error is %v, want one for good", err)
	}
	if _, _, err = resumed(all, &holdfastv1.ResumedSessions{}); err == nil {
		t.Error("an answer for no session is accepted")
	}
}

func TestMetric(t *testing.T) {
	const page = "# HELP a b\na_total 5\na 2.5e+06\n"
	if v, err := metric(page, "a"); v != 2.5e6 || err != nil {
		t.Errorf("got %v, %v, want 2.5e6", v, err)
	}
	if _, err := metric(page, "b"); err == nil {
		t.Error("a metric that is not there is found")
	}
}

func TestLiveOf(t *testing.T) {
	for page, want := range map[string]int64{
		"go_memstats_next_gc_bytes 3e+06\n":                        1_500_000,
		"go_gc_gogc_percent 50\ngo_memstats_next_gc_bytes 3e+06\n": 2_000_000,
	} {
		if got, err := liveOf(page); got != want || err != nil {
			t.Errorf("%q: got %d, %v, want %d", page, got, err, want)
		}
	}
	if _, err := liveOf("go_gc_gogc_percent 50\n"); err == nil {
		t.Error("a page without the goal is accepted")
	}
}

func TestHistogramTotal(t *testing.T) {
	const out = " num     #instances         #bytes  class name\n" +
		"   1:          1000         120000  [B\nTotal          2000         150000\n"
	if got, err := histogramTotal(out); got != 150000 || err != nil {
		t.Errorf("got %d, %v, want 150000", got, err)
	}
	if _, err := histogramTotal("1234:\n"); err == nil {
		t.Error("an answer without a total is accepted")
	}
}

func TestJoin(t *testing.T) {
	calls := 0
	var got error
	done := func(err error) { calls, got = calls+1, err }
	one := join(3, done)
	first := errors.New("first")
	one(nil)
	one(first)
	if calls != 0 {
		t.Error("done before all have answered")
	}
	one(errors.New("second"))
	if calls != 1 || !errors.Is(got, first) {
		t.Errorf("done %d times with %v, want once with the first error", calls, got)
	}
	join(0, done)
	if calls != 2 || got != nil {
		t.Error("nothing to wait for is not done at once")
	}
}
