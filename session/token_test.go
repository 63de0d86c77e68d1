package session_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holdfast/session"
)

func tokens() *rapid.Generator[session.Token] {
	return rapid.Custom(func(t *rapid.T) session.Token {
		return session.Token{
			ID:         session.ID(rapid.Uint64Min(1).Draw(t, "id")),
			Credential: session.Credential(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "credential")),
			Attachment: rapid.Uint64Min(1).Draw(t, "attachment"),
			Local:      rapid.Bool().Draw(t, "local"),
		}
	})
}

func TestTokenIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		token := tokens().Draw(t, "token")
		if got, err := session.ParseToken(" " + token.Secret() + "\n"); err != nil || got != token {
			t.Fatalf("%s was read as %s, %v", token.Secret(), got.Secret(), err)
		}
	})
}

// The text of a token never changes: users keep it over a change of version.
func TestTokenText(t *testing.T) {
	token := session.Token{ID: 1<<56 | 7, Credential: session.Credential{0, 0xff, 15: 1}, Attachment: 12}
	const want = "0x0100000000000007.00ff0000000000000000000000000001.12"
	if got := token.Secret(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	token.Local = true
	if got := token.Secret(); got != want+".local" {
		t.Errorf("got %q, want %q", got, want+".local")
	}
	for _, bad := range []string{
		"", want[:len(want)-2] + "0", want + ".", want + ".remote", want + ".local.local",
		"0" + want[len("0x0100000000000007"):],
		"x" + want, strings.Replace(want, "00ff", "0ff", 1), strings.Replace(want, "00ff", "g0ff", 1), want + "x",
	} {
		got, err := session.ParseToken(bad)
		field, ok := errors.AsType[*session.FieldError](err)
		if !ok || field.Field != "token" || got != (session.Token{}) || strings.Contains(err.Error(), "ff00") {
			t.Errorf("%q was read as %+v, %v; want a FieldError of token that does not repeat it", bad, got, err)
		}
	}
}

// Printing shows no byte of a credential, alone or in a token, a pointer, a list or a map.
func TestCredentialIsNotPrinted(t *testing.T) {
	token := session.Token{ID: 7, Credential: session.Credential([]byte("sixteen secret b")), Attachment: 3}
	bytes := token.Credential[:]
	shown := []string{ // the credential's first bytes as they would be printed
		string(bytes[:4]), hex.EncodeToString(bytes[:4]), strings.ToUpper(hex.EncodeToString(bytes[:4])),
		"115 105 120", "0x73, 0x69", "0x73 0x69", "163 151", "1110011",
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%# x", "%d", "%o", "%b", "%c", "%U"} {
		for _, value := range []any{
			token.Credential, &token.Credential, token, &token,
			[]session.Token{token},
			map[string]session.Token{"a": token},
			struct{ Of session.Token }{token},
		} {
			text := fmt.Sprintf(verb, value)
			for _, s := range shown {
				if strings.Contains(text, s) {
					t.Errorf("%s of %T prints %q", verb, value, text)
				}
			}
		}
	}
	if got := fmt.Sprintf("%+v", token); !strings.Contains(got, "Attachment:3") {
		t.Errorf("a token is printed as %q, want all but its credential", got)
	}
}
