package leader_test

import (
	"errors"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// clocked runs a leader of one node whose wall clock shows at. It asks the leader for two sessions and a block of ids
// with the time ms, and returns the times that were proposed and the errors of refused requests.
func clocked(t *testing.T, at time.Time, ms uint64) (proposedMS []uint64, refused []error) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(at))
		w := newWorld(t, voters(1))
		defer w.run()()
		m := w.join(1, prompt)
		for _, r := range []session.Request{
			{Open: &session.OpenRequest{
				Spec: session.Spec{Timeout: long},
				MS:   ms,
			}}, {Open: &session.OpenRequest{Spec: session.Spec{Timeout: long}, MS: ms}}, {
				Claim: &session.ClaimRequest{Count: 1, MS: ms},
			},
		} {
			if reply := m.ask(r); reply.Err != nil {
				refused = append(refused, reply.Err)
			}
		}
		opens, _ := proposed[session.OpenSession](w.log)
		for _, c := range opens {
			proposedMS = append(proposedMS, c.MS)
		}
		claims, _ := proposed[session.ClaimIDs](w.log)
		for _, c := range claims {
			proposedMS = append(proposedMS, c.MS)
		}
	})
	return proposedMS, refused
}

// O1: opens and claims get ids whatever the clocks of node and leader show. A time more than a minute ahead of the
// leader's is lowered to a minute ahead.
func TestO1AWrongClockStopsNoOpens(t *testing.T) {
	now := session.Epoch().AddDate(10, 0, 0)
	for name, tt := range map[string]struct {
		leader   time.Time
		ms, want uint64
	}{
		"the node is behind":                 {now, 7, 7},
		"a minute ahead":                     {now, session.MS(now) + 60_000, session.MS(now) + 60_000},
		"a minute and a millisecond ahead":   {now, session.MS(now) + 60_001, session.MS(now) + 60_000},
		"the node is at the end of the ids":  {now, session.MaxMS, session.MS(now) + 60_000},
		"the node is centuries ahead":        {now, session.MaxMS + 1<<42, session.MS(now) + 60_000},
		"the leader is before the ids":       {session.Epoch().AddDate(-20, 0, 0), session.MS(now), 0},
		"the leader is centuries ahead":      {now.AddDate(100, 0, 0), session.MS(now), session.MS(now)},
		"both are where the last ids are of": {session.TimeOfMS(session.MaxMS), session.MaxMS, session.MaxMS},
	} {
		t.Run(name, func(t *testing.T) {
			got, refused := clocked(t, tt.leader, tt.ms)
			if len(refused) > 0 || len(got) != 3 || got[0] != tt.want || got[1] != tt.want || got[2] != tt.want {
				t.Errorf("proposed %d, refused %v, want 3 times %d", got, refused, tt.want)
			}
		})
	}
}

// O1: if the leader's clock agrees that no id can hold the time, the request is refused as ids used up, and nothing is
// proposed.
func TestO1IDsAreUsedUpByBothClocks(t *testing.T) {
	got, refused := clocked(t, session.TimeOfMS(session.MaxMS), session.MaxMS+1)
	if len(got) > 0 || len(refused) != 3 {
		t.Fatalf("proposed %d, refused %v, want 3 refusals", got, refused)
	}
	for _, err := range refused {
		if !errors.Is(err, session.ErrIDsUsedUp) {
			t.Errorf("got %v, want %v", err, session.ErrIDsUsedUp)
		}
	}
}
