package session

import (
	"errors"
	"strings"
	"testing"
)

func TestUsageRoom(t *testing.T) {
	c := Capacity{MaxSessions: 3, MaxBytes: 1000}
	tests := map[string]struct {
		usage Usage
		cost  uint64
		want  string // the limit's name, and part of its text
	}{
		"no bounds":    {Usage{Sessions: 1 << 40, Bytes: 1 << 50}, 1 << 50, ""},
		"empty":        {Usage{Capacity: c}, 1000, ""},
		"the last one": {Usage{Sessions: 2, Bytes: 900, Capacity: c}, 100, ""},
		"one too many": {
			Usage{Sessions: 3, Bytes: 1, Capacity: c}, 1, "max_sessions 3 sessions, 3 open",
		},
		"lowered": {
			Usage{Sessions: 9, Bytes: 1, Capacity: c}, 1, "max_sessions 3 sessions, 9 open",
		},
		"a byte too much": {
			Usage{Sessions: 2, Bytes: 901, Capacity: c},
			100,
			"max_state_bytes 1000 bytes, 901 used, 100 more needed",
		},
		"bytes lowered": {
			Usage{Sessions: 2, Bytes: 5000, Capacity: c},
			1, "max_state_bytes 1000 bytes, 5000 used, 1 more needed",
		},
		"sessions go first": {Usage{Sessions: 3, Bytes: 5000, Capacity: c}, 1, "max_sessions"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := test.usage.CheckCapacity(test.cost)
			if test.want == "" {
				if err != nil {
					t.Errorf("got %v, want room", err)
				}
				return
			}
			var limit *LimitError
			if !errors.As(err, &limit) || !strings.HasPrefix(limit.Name+" "+limit.Limit, test.want) ||
				limit.RetryAfter != FullRetryAfter {
				t.Errorf("got %v, want %q and a RetryAfter", err, test.want)
			}
		})
	}
}

func TestUsageShare(t *testing.T) {
	c := Capacity{MaxSessions: 4, MaxBytes: 1000}
	for want, u := range map[float64]Usage{
		0: {Sessions: 5, Bytes: 5}, 0.5: {Sessions: 2, Bytes: 400, Capacity: c}, 0.75: {
			Sessions: 1, Bytes: 750,
			Capacity: c,
		},
		1.25: {Sessions: 5, Bytes: 10, Capacity: c},
	} {
		if got := u.Share(); got != want {
			t.Errorf("%+v is full to %v, want %v", u, got, want)
		}
	}
}
