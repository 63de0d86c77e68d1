package fsm

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"holdfast/session"
)

// An entry with a MoveSessions of n sessions and an entry with n MoveSession give the same state, the same digest, the
// same results, and tell observers the same.
func TestM1MovesAreMovesInOneCommand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		together, apart := newReplica(), newReplica()
		told, toldApart := observe(together), observe(apart)
		do := func(a, b []session.Command) ([]session.Result, []session.Result) {
			return together.apply(t, 1, a...), apart.apply(t, 1, b...)
		}
		var ids []session.ID
		for n := range rapid.IntRange(1, 5).Draw(t, "opens") {
			c := []session.Command{opening(byte(n + 1))}
			one, _ := do(c, c)
			ids = append(ids, one[0].Session.ID)
		}
		if len(ids) > 1 {
			now, _ := together.Session(ids[0])
			c := []session.Command{closing(1, now)}
			do(c, c)
		}
		for range rapid.IntRange(1, 6).Draw(t, "entries") {
			c := session.MoveSessions{
				NewOwner: session.Node(rapid.IntRange(1, 3).Draw(t, "owner")),
				Instance: rapid.Uint64Range(1, 2).Draw(t, "instance"),
			}
			var each []session.Command
			for i := range rapid.IntRange(1, 6).Draw(t, "sessions") {
				id := rapid.SampledFrom(ids).Draw(t, "id")
				now, _ := together.Session(id)
				c.Sessions = append(c.Sessions, session.Moving{
					ID: id, Attempt: rapid.Uint64Range(1, 3).Draw(t, "attempt"),
					Named: rapid.SampledFrom([]uint64{max(now.Attachment, 1), 1, 7}).Draw(t, "named"),
				})
				each = append(each, c.Each(i))
			}
			all, one := do([]session.Command{c}, each)
			checkMoved(t, all[0].Moved, one)
		}
		same(t, together, apart)
		if !reflect.DeepEqual(told.events, toldApart.events) {
			t.Fatalf("observers are told %v of the moves together, %v apart", told.events, toldApart.events)
		}
	})
}

func checkMoved(t *rapid.T, got []session.MoveResult, each []session.Result) {
	t.Helper()
	var want []session.MoveResult
	for _, r := range each {
		want = append(want, session.MoveResult{
			Attachment: r.Session.Attachment, Repeated: r.Repeated, Err: r.Err,
		})
	}
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Fatalf("the moves are %+v\nwant %+v", got, want)
	}
}

// One session that is refused leaves the others alone.
func TestM1EachOfManyIsMovedOrRefusedByItself(t *testing.T) {
	r := newReplica()
	a, b, c := r.open(t, opening(1)), r.open(t, opening(2)), r.open(t, opening(3))
	r.do(t, closing(1, b))
	taken := r.do(t, session.MoveSession{ID: c.ID, NewOwner: 1, Instance: 9, Attempt: 1, Named: c.Attachment}).Session
	got := r.do(t, session.MoveSessions{NewOwner: 2, Instance: 5, Sessions: []session.Moving{
		{ID: a.ID, Attempt: 1, Named: a.Attachment},
		{ID: b.ID, Attempt: 1, Named: b.Attachment},
		{ID: c.ID, Attempt: 1, Named: c.Attachment},
		{ID: a.ID, Attempt: 1, Named: a.Attachment},
	}}).Moved
	expired, _ := errors.AsType[*session.ExpiredError](got[1].Err)
	moved, _ := errors.AsType[*session.MovedError](got[2].Err)
	want := []session.MoveResult{{Attachment: 5}, {Err: expired}, {Err: moved}, {Attachment: 5, Repeated: true}}
	if !slices.Equal(got, want) || expired == nil || expired.Certificate == nil || moved == nil ||
		*moved != (session.MovedError{Attachment: taken.Attachment, Instance: 9}) {
		t.Fatalf("moves are %+v, want %+v with a certificate, and with the present instance", got, want)
	}
	if now, _ := r.Session(a.ID); now.Owner != 2 || now.Instance != 5 || now.Attachment != 5 {
		t.Errorf("the session that was moved is %+v", now)
	}
	if now, _ := r.Session(c.ID); !reflect.DeepEqual(now, taken) {
		t.Errorf("the session that was refused is %+v, want %+v", now, taken)
	}
}
