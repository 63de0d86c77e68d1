package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"holdfast/session"
)

// A TokenSource returns the bearer token that authenticates the client. The client calls it for each connection and
// each call, so a token can be replaced while the client runs. A TokenSource must be safe for concurrent use, return
// soon, and keep the token out of its errors.
type TokenSource func(ctx context.Context) (string, error)

// maxTokenBytes bounds a file with a token.
const maxTokenBytes = 4096

// errTokenText refuses a source's text without repeating the text.
var errTokenText = errors.New("not a token: must be printable ASCII without spaces")

// TokenFile returns the source that reads a token from a file, each time again. White space around the token counts for
// nothing.
func TokenFile(path string) TokenSource {
	return func(context.Context) (string, error) {
		f, err := os.Open(path)
		if err != nil {
			return "", fmt.Errorf("reading the token: %w", err)
		}
		defer func() { _ = f.Close() }() // opened for reading only
		b, err := io.ReadAll(io.LimitReader(f, maxTokenBytes+1))
		switch {
		case err != nil:
			return "", fmt.Errorf("reading the token: %w", err)
		case len(b) > maxTokenBytes:
			return "", fmt.Errorf("reading the token: %s has more than %d bytes: it is no file of a token", path, maxTokenBytes)
		}
		return strings.TrimSpace(string(b)), nil
	}
}

// StaticToken returns the source of a token that does not change.
func StaticToken(token string) TokenSource {
	return func(context.Context) (string, error) { return token, nil }
}

// checked returns a source that validates tokens. An invalid token would otherwise appear in gRPC's error.
func (s TokenSource) checked() TokenSource {
	if s == nil {
		return nil
	}
	return func(ctx context.Context) (string, error) {
		token, err := s(ctx)
		if err != nil {
			return "", err
		}
		if token == "" || strings.IndexFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0 {
			return "", errTokenText
		}
		return token, nil
	}
}

// checkToken refuses to send a token without TLS unless TokenWithoutTLS allows that.
func checkToken(c *Config) error {
	if c.Token == nil || c.TLS != nil || c.TokenWithoutTLS {
		return nil
	}
	return &session.FieldError{
		Field: "token", Limit: "sent only over TLS, unless TokenWithoutTLS (--token-without-tls) is set",
	}
}
