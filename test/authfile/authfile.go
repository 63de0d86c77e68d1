// Package authfile makes tokens with roles for tests, and files of them as auth_file wants them.
package authfile

import (
	"os"
	"strings"
	"testing"
	"time"

	"holdfast/auth"
)

// EachRole returns a name for each role, which is the role's.
func EachRole() map[string]auth.Roles {
	return map[string]auth.Roles{
		"client": auth.Client, "reader": auth.Reader, "operator": auth.Operator, "admin": auth.Admin,
	}
}

// Make returns a token for each name.
func Make(roles map[string]auth.Roles) map[string]auth.Token {
	made := make(map[string]auth.Token, len(roles))
	for name := range roles {
		made[name] = auth.NewToken()
	}
	return made
}

// Text returns a file with the tokens, each with the roles of its name.
func Text(tb testing.TB, tokens map[string]auth.Token, roles map[string]auth.Roles) string {
	tb.Helper()
	text := strings.Builder{}
	text.WriteString("tokens:\n")
	for name, token := range tokens {
		line, err := auth.Line(name, token.Digest(), roles[name], time.Time{})
		if err != nil {
			tb.Fatal(err)
		}
		text.WriteString(line + "\n")
	}
	return text.String()
}

// Write writes the file that Text returns.
func Write(tb testing.TB, path string, tokens map[string]auth.Token, roles map[string]auth.Roles) {
	tb.Helper()
	if err := os.WriteFile(path, []byte(Text(tb, tokens, roles)), 0o600); err != nil {
		tb.Fatal(err)
	}
}
