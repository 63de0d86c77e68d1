package leader

import (
	"testing"
	"time"

	"holdfast/session"
)

// T6: nothing that is said on a stream counts once a newer one is open, also what was being taken at that moment.
func TestT6FormerStreamIsSilent(t *testing.T) {
	r := newRounds(7, time.Second)
	r.configure([]session.Member{{Node: 2, Voter: true}}, 0)
	former, newest := newStream(session.Hello{Node: 2, Stream: 1}), newStream(session.Hello{Node: 2, Stream: 2})
	if _, err := r.open(former, 0); err != nil {
		t.Fatal(err)
	}
	r.begin(0)
	if got := r.next(former, 0); got == nil || !r.expects(former, 1) {
		t.Fatalf("the first stream is sent %+v", got)
	}
	if ended, err := r.open(newest, 5); err != nil || ended != former {
		t.Fatalf("opening a newer one ended %+v, %v", ended, err)
	}
	if got := r.next(newest, 5); got == nil || r.expects(former, 1) || r.next(former, 5) != nil {
		t.Errorf("an answer on the former stream still counts, or it is sent more; the newest was sent %+v", got)
	}
	r.close(former, 9)
	if !r.expects(newest, 1) {
		t.Error("the late end of the former stream ended the newest")
	}
}
