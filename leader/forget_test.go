package leader_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"holdfast/session"
)

// O2: request ids older than the largest timeout are forgotten, those of earlier terms too. If there is nothing to
// forget, nothing is proposed.
func TestO2ForgetRequests(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		w.view.commit, w.log.index = 12, 12
		m := w.join(1, prompt)
		defer w.run()()
		w.at(10 * time.Second)
		m.ask(session.Request{Open: &session.OpenRequest{Spec: session.Spec{Timeout: long}}}) // index 13
		w.at(11 * time.Second)
		m.ask(session.Request{Open: &session.OpenRequest{Spec: session.Spec{Timeout: long}}}) // index 14
		w.at(30 * time.Second)
		m.ask(session.Request{Open: &session.OpenRequest{Spec: session.Spec{Timeout: long}}}) // index >= 15
		last := w.log.newest()
		w.at(time.Hour)
		forgotten, at := proposed[session.ForgetRequests](w.log)
		if len(forgotten) != 3 || forgotten[0].UpToIndex != 12 || forgotten[1].UpToIndex != 14 ||
			forgotten[2].UpToIndex != last {
			w.t.Fatalf("forgotten %+v, want 12, 14 and %d", forgotten, last)
		}
		for i, opened := range []time.Duration{0, 11 * time.Second, 30 * time.Second} {
			if age := at[i] - opened; age < 40*time.Second || age > 60*time.Second {
				t.Errorf("%+v forgotten at the age of %v, want slightly more than 40 s", forgotten[i], age)
			}
		}
	})
}

// O2: if the forgetting fails, it is proposed again.
func TestO2Again(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		w.view.commit = 12
		w.log.decides(func(_ context.Context, c session.Command) (session.Result, error, bool) {
			_, forget := c.(session.ForgetRequests)
			return session.Result{}, session.ErrOutcomeUnknown, forget && w.now() < 5*time.Minute
		})
		w.join(1, prompt)
		defer w.run()()
		w.at(6 * time.Minute)
		_, at := proposed[session.ForgetRequests](w.log)
		if len(at) < 2 || at[len(at)-1] < 5*time.Minute {
			t.Errorf("proposed at %v, want again until it was applied", at)
		}
	})
}

// O2: the request ids are forgotten in parts, each after the former one was applied, so that opens never wait for
// many. The state here remembers three parts up to entry 12.
func TestO2ForgottenInParts(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		w.view.commit, w.log.index = 12, 12
		w.part = func(upTo uint64, most int) uint64 {
			if most != session.MaxForget {
				t.Errorf("a part of %d, want %d", most, session.MaxForget)
			}
			forgotten, _ := proposed[session.ForgetRequests](w.log)
			return min(upTo, uint64(len(forgotten)+1)*5)
		}
		w.join(1, prompt)
		defer w.run()()
		w.at(time.Minute)
		forgotten, _ := proposed[session.ForgetRequests](w.log)
		if want := []session.ForgetRequests{{UpToIndex: 5}, {UpToIndex: 10}, {UpToIndex: 12}}; !slices.Equal(forgotten,
			want) {
			t.Errorf("forgotten %v, want %v", forgotten, want)
		}
	})
}

// O2: a request id is remembered for the longest timeout of a session that exists, even if the leader gives only
// shorter timeouts.
func TestO2RequestsOfLongerTimeouts(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		w.view.commit, w.log.index = 12, 12
		w.has(5, 1)
		w.lasts(5, time.Hour)
		w.join(1, prompt)
		defer w.run()()
		w.at(2 * time.Hour)
		if _, at := proposed[session.ForgetRequests](w.log); len(at) == 0 || at[0] < time.Hour {
			t.Errorf("forgotten at %v, want once, after an hour", at)
		}
	})
}
