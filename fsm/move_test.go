package fsm

import (
	"errors"
	"reflect"
	"testing"

	"holdfast/session"
)

func TestM1EachMoveIsANewAttachment(t *testing.T) {
	r := newReplica()
	s := r.open(t, opening(1))
	for i, move := range []session.MoveSession{
		{NewOwner: 2, Instance: 5, Attempt: 1, Named: 1},
		{NewOwner: 2, Instance: 5, Attempt: 2, Named: 1}, // the same node again
		{NewOwner: 3, Instance: 5, Attempt: 2, Named: 1}, // the same attempt through another node
		{NewOwner: 3, Instance: 6, Attempt: 1, Named: 4}, // another process
	} {
		move.ID = s.ID
		got := r.do(t, move).Session
		want := s
		want.Owner, want.Attachment, want.Instance = move.NewOwner, uint64(i)+2, move.Instance
		if !reflect.DeepEqual(got, want) {
			t.Errorf("move %d = %+v\nwant %+v", i, got, want)
		}
		if read, _ := r.Session(s.ID); !reflect.DeepEqual(read, want) {
			t.Errorf("after move %d the session is %+v\nwant %+v", i, read, want)
		}
	}
}

func TestM1OldAttemptIsRefused(t *testing.T) {
	r := newReplica()
	s := r.open(t, opening(1))
	newest := r.do(t, session.MoveSession{ID: s.ID, NewOwner: 2, Instance: 5, Attempt: 3, Named: 1}).Session
	// An older attempt comes late, through the node that the process has left.
	older := session.MoveSession{ID: s.ID, NewOwner: 1, Instance: 5, Attempt: 2, Named: 1}
	if got := r.apply(t, 1, older)[0].Err; !errors.Is(got, session.ErrMoved) {
		t.Errorf("older attempt = %v, want %v", got, session.ErrMoved)
	}
	if got, _ := r.Session(s.ID); !reflect.DeepEqual(got, newest) {
		t.Errorf("older attempt left %+v, want %+v", got, newest)
	}
}

// Process 5 has the session with attachment 2, and process 6 takes it over with attachment 3. Resumes that 5 sent
// before are refused. When 5 has taken the session back, earlier resumes of 6 are refused.
func TestM1AnotherProcessNamesThePresentAttachment(t *testing.T) {
	r := newReplica()
	s := r.open(t, opening(1))
	move := func(instance, attempt, named uint64) session.Result {
		t.Helper()
		return r.apply(
			t, 1, session.MoveSession{ID: s.ID, NewOwner: 2, Instance: instance, Attempt: attempt, Named: named},
		)[0]
	}
	for i, step := range []struct {
		instance, attempt, named uint64
		attachment               uint64 // the attachment that the move makes, 0 if it is refused
		why                      string
	}{
		{5, 3, 1, 2, "the open's attachment"},
		{6, 1, 1, 0, "a token from before the present connection"},
		{6, 2, 9, 0, "an attachment that is to come"},
		{5, 4, 1, 3, "the process that has it, whose newest answer was lost"},
		{6, 3, 3, 4, "the present attachment"},
		{6, 3, 3, 4, "the same again, whose answer was lost"},
		{5, 5, 3, 0, "a delayed resume of the process that lost it"},
		{5, 4, 3, 0, "an older one"},
		{6, 2, 3, 0, "an older attempt of the one that has it"},
		{5, 6, 4, 5, "taken back"},
		{6, 4, 4, 0, "a delayed resume of the one that lost it then"},
		{5, 5, 4, 0, "the delayed resume from the time before"},
		{5, 7, 1, 6, "the one that has it, by an old token"},
	} {
		got := move(step.instance, step.attempt, step.named)
		if step.attachment != 0 {
			if got.Err != nil || got.Session.Attachment != step.attachment || got.Session.Instance != step.instance {
				t.Errorf("step %d, %s: %+v, want attachment %d", i, step.why, got, step.attachment)
			}
			continue
		}
		now, _ := r.Session(s.ID)
		want := session.MovedError{Attachment: now.Attachment, Instance: now.Instance}
		if told, ok := errors.AsType[*session.MovedError](got.Err); !ok || *told != want {
			t.Errorf("step %d, %s: %+v, want %+v", i, step.why, got, want)
		}
	}
}

func TestM1SameAttemptIsAnsweredAsTheFirstTime(t *testing.T) {
	r := newReplica()
	s := r.open(t, opening(1))
	move := session.MoveSession{ID: s.ID, NewOwner: 2, Instance: 5, Attempt: 3, Named: 1}
	first := r.do(t, move).Session
	o := observe(r)
	if again := r.do(t, move).Session; !reflect.DeepEqual(again, first) {
		t.Errorf("the same attempt again = %+v, want %+v", again, first)
	}
	if got, want := o.events, []string{"3/1 []"}; !reflect.DeepEqual(got, want) {
		t.Errorf("the observer was told of %v, want %v", got, want)
	}
}

func TestM1NoSession(t *testing.T) {
	r := newReplica()
	s := r.open(t, opening(1))
	r.do(t, closing(1, s))
	for _, test := range []struct {
		id          session.ID
		certificate bool
	}{{s.ID, true}, {s.ID + 1, false}} {
		err := r.apply(t, 1, session.MoveSession{ID: test.id, NewOwner: 2, Instance: 5, Attempt: 1, Named: 1})[0].Err
		var expired *session.ExpiredError
		if !errors.As(err, &expired) || expired.ID != test.id || (expired.Certificate != nil) != test.certificate {
			t.Errorf("move of %v = %v, want an ExpiredError, with a certificate: %v", test.id, err, test.certificate)
		}
	}
}
