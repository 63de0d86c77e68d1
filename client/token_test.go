package client

import (
	"context"
	"errors"
	"strings"
	"testing"

	"holdfast/session"
	"holdfast/test/bubble"
)

// An impossible token is reported at once.
func TestATokenThatCannotBeMade(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, 2)
		cl := newClientWith(t, Config{
			Endpoints: c.endpoints(1, 2), Dial: c.dial, TokenWithoutTLS: true,
			Token: func(context.Context) (string, error) { return "", errors.New("no such file") },
		})
		for call, do := range connecting(session.Token{ID: 1<<56 | 1, Credential: credentialOf(1<<56 | 1), Attachment: 1}) {
			if err := do(t.Context(), cl); !errors.Is(err, session.ErrUnauthenticated) ||
				!strings.Contains(err.Error(), "no such file") {
				t.Errorf("%s: %v", call, err)
			}
		}
	})
}
