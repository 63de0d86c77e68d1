package leader

import (
	"errors"
	"testing"
	"time"

	"holdfast/session"
)

// T6: nothing that is said on a stream counts once a newer one is open, also what was being taken at that moment.
func TestT6FormerStreamIsSilent(t *testing.T) {
	r := newRounds(7, time.Second, 0)
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

// R3, T6: a node on another data directory is another member. It is not heard before the configuration names its directory, nothing
// that the former one answered counts for it, and since when the node is silent stays (E1).
func TestR3OtherDirectoryIsAnotherMember(t *testing.T) {
	r := newRounds(7, time.Second, 0)
	named := func(directory uint64) []*stream {
		return r.configure([]session.Member{{Node: 2, Directory: directory, Voter: true}}, 30)
	}
	named(1)
	former := newStream(session.Hello{Node: 2, Directory: 1, Incarnation: 9, Stream: 9})
	later := newStream(session.Hello{Node: 2, Directory: 2, Incarnation: 1, Stream: 1})
	if _, err := r.open(former, 0); err != nil {
		t.Fatal(err)
	}
	r.begin(10)
	r.next(former, 10)
	r.answer(former, &session.Answer{Round: 1, Term: 7, Last: true}, 20)
	if _, err := r.open(later, 20); !errors.Is(err, ErrDirectory) {
		t.Errorf("a directory that the configuration does not name: got %v, want %v", err, ErrDirectory)
	}
	if ended := named(2); len(ended) != 1 || ended[0] != former {
		t.Errorf("the change ended %v, want the former stream", ended)
	}
	if r.judge() {
		t.Error("the former directory's answer makes a round good for the later one")
	}
	if m := r.members[2]; m.silent != 30 || m.answered != nil {
		t.Errorf("silent since %v, newest answer %+v", m.silent, m.answered)
	}
	if _, err := r.open(former, 40); !errors.Is(err, ErrDirectory) {
		t.Errorf("the former directory comes back: got %v, want %v", err, ErrDirectory)
	}
	if _, err := r.open(later, 40); err != nil {
		t.Errorf("the later directory, whose incarnations begin anew: %v", err)
	}
	if ended := named(2); ended != nil {
		t.Errorf("the same configuration again ended %v", ended)
	}
}

// S4: to learners a round is its term and number: a later tracker of the term counts on.
func TestS4ALaterTrackerOfTheTermCountsOn(t *testing.T) {
	r := newRounds(7, time.Second, 41)
	if r.good.number() != 0 {
		t.Errorf("round %d is good before the first", r.good.number())
	}
	r.begin(0)
	r.begin(1)
	if got := r.newest.number(); got != 43 {
		t.Errorf("the second round is number %d, want 43", got)
	}
}
