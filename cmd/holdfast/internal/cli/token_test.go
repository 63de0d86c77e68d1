package cli

import (
	"strings"
	"testing"

	"holdfast/cmd/holdfast/internal/clitest/fakenode"
	"holdfast/session"
	"holdfast/test/fuzz/bound"
)

// Addresses, paths and ids are not mistaken for tokens.
func TestInvalidTokens(t *testing.T) {
	for _, text := range []string{
		"node1.example.com:7400", "./token", "127.0.0.1:7400", "0x0100000000000007",
		"deadbeef.example.org",
	} {
		if isToken(text) || withoutSecrets(text) != text {
			t.Errorf("%q is taken for a token and shown as %q", text, withoutSecrets(text))
		}
	}
	if got, want := withoutSecrets("open "+fakenode.TokenText+": no such file"),
		"open "+fakenode.LivingToken().ID.String()+".(secret): no such file"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// FuzzParseToken: parseToken reads a text or refuses it without repeating it, because a token is a secret. A token that
// was read, written and read again is the same.
func FuzzParseToken(f *testing.F) {
	for _, s := range []string{
		fakenode.TokenText, " " + fakenode.TokenText + "\n", "", "..", "1.00112233445566778899aabbccddeeff.1",
		"0x1.00112233445566778899AABBCCDDEEFF.18446744073709551615",
		"1.00112233445566778899aabbccddeef.1", "1.00112233445566778899aabbccddeeff.0",
		"1.00112233445566778899aabbccddeeff.1.1",
		"1.00112233445566778899aabbccddeeff.1.local", fakenode.TokenText + ".local.", strings.Repeat(".", 4096),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var token session.Token
		var err error
		bound.Cost{PerByte: 64, Fixed: 64 << 10}.Hold(t, len(s), func() { token, err = parseToken(s) })
		if err != nil {
			if parts := strings.Split(s, "."); len(parts) >= 3 && len(parts[1]) > 8 &&
				strings.Contains(err.Error(), parts[1]) {
				t.Errorf("the refusal of %q repeats it: %v", s, err)
			}
			return
		}
		if token.ID == 0 || token.Attachment == 0 {
			t.Errorf("%q was read as %+v", s, token)
		}
		if again, err := parseToken(FormatToken(token)); err != nil || again != token {
			t.Errorf("%q was read as %+v, and written and read again as %+v, %v", s, token, again, err)
		}
	})
}

func TestTokenText(t *testing.T) {
	if got, err := parseToken(" " + FormatToken(fakenode.LivingToken()) + "\n"); err != nil ||
		got != fakenode.LivingToken() {
		t.Errorf("got %v, %v, want %v", got, err, fakenode.LivingToken())
	}
	local := fakenode.LivingToken()
	local.Local = true
	if got, err := parseToken(fakenode.TokenText + ".local"); err != nil || got != local ||
		FormatToken(got) != fakenode.TokenText+".local" {
		t.Errorf("got %v, %v, want %v", got, err, local)
	}
	for _, bad := range []string{
		fakenode.TokenText + ".Local", fakenode.TokenText + ".", fakenode.TokenText + ".local.local",
		fakenode.TokenText + "local", "", "a.b",
		"0x0.ab0000000000000000000000000000cd.42", "0x1.ab.42", "0x1.zz0000000000000000000000000000cd.42",
		"0x1.ab0000000000000000000000000000cd.0", "0x1.ab0000000000000000000000000000cd.-1", fakenode.TokenText + ".1",
	} {
		if got, err := parseToken(bad); err == nil {
			t.Errorf("parseToken(%q): got %v", bad, got)
		}
	}
}

// A file that is too long for a token is refused, and its beginning is not used as the token: a token that is cut in
// its attachment names a former attachment.
func TestFilesOfTokensAreBounded(t *testing.T) {
	blank := strings.Repeat(" ", tokenBytes-len(fakenode.TokenText))
	for _, tt := range []struct {
		text string
		fits bool
	}{
		{blank + fakenode.TokenText, true},
		{blank + fakenode.TokenText + "1", false},
		{"token " + fakenode.TokenText + "\n" + blank + blank, true},
		{blank[:len(blank)-len("token ")] + "token " + fakenode.TokenText + "1\n", false},
		{fakenode.TokenText + "\n" + blank + blank, false},
	} {
		got, err := (&TokenFlag{file: "-"}).Token(t.Context(), strings.NewReader(tt.text))
		if tt.fits && (err != nil || FormatToken(got) != fakenode.TokenText) ||
			!tt.fits && (err == nil || !strings.Contains(err.Error(), "more than 4096 bytes")) {
			t.Errorf("%d bytes: %v, %v; fits: %v", len(tt.text), got, err, tt.fits)
		}
	}
}
