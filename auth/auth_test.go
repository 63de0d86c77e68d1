package auth

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

func moment() time.Time { return time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC) }

// lineOf returns a token and the line of a file for it.
func lineOf(t *testing.T, name string, roles Roles, expires time.Time) (Token, string) {
	t.Helper()
	token := NewToken()
	line, err := Line(name, token.Digest(), roles, expires)
	if err != nil {
		t.Fatal(err)
	}
	return token, line
}

// Roles are separate, but for admin and operator, which include others.
func TestRoles(t *testing.T) {
	for _, tt := range []struct {
		has, need Roles
		want      bool
	}{
		{Client, Client, true},
		{Client, Reader, false},
		{Reader, Client, false},
		{Reader, Client | Reader, true},
		{Operator, Reader, true},
		{Operator, Client, false},
		{Operator, Admin, false},
		{Admin, Client, true},
		{Admin, Reader | Operator, true},
		{0, AnyRole, false},
		{Admin, 0, false}, // a call without a row
	} {
		if got := tt.has.Allow(tt.need); got != tt.want {
			t.Errorf("%v has %v of %v: got %v", tt.has.Names(), got, tt.need.Names(), got)
		}
	}
	for names, want := range map[string]bool{
		"client": true, "client,reader": true, "": false, "root": false, "admin,admin": false, "Admin": false,
	} {
		_, err := ParseRoles(strings.FieldsFunc(names, func(r rune) bool { return r == ',' }))
		if (err == nil) != want {
			t.Errorf("%q: %v", names, err)
		}
	}
}

// A token is found by its digest until it expires, and no output shows it.
func TestToken(t *testing.T) {
	token, line := lineOf(t, "web", Client, moment())
	book, err := Parse([]byte("tokens:\n" + line + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseToken(" " + token.Secret() + "\n")
	if err != nil {
		t.Fatal(err)
	}
	id, why := book.Token(again, moment().Add(-1))
	if why != Accepted || id.Name != "token:web" || id.Roles != Client {
		t.Errorf("got %+v, %v", id, why)
	}
	if _, why = book.Token(again, moment()); why != Expired {
		t.Errorf("at its expiry: got %v, want Expired", why)
	}
	if _, why = book.Token(NewToken(), moment()); why != Unknown {
		t.Errorf("another token: got %v, want Unknown", why)
	}
	secret := token.Secret()
	for _, text := range []string{
		fmt.Sprint(token), fmt.Sprintf("%v %+v %#v %s", token, &token, token, token), WithoutTokens("x " + secret + " y"),
		line,
	} {
		if strings.Contains(text, secret[len(tokenPrefix):]) {
			t.Errorf("%q shows the token", text)
		}
	}
	for _, wrong := range []string{
		"", "holdfast_", secret + "x", secret[:len(secret)-1], "x" + secret, secret[:20] + "!" + secret[21:],
	} {
		_, err := ParseToken(wrong)
		if !errors.Is(err, ErrNotToken) || len(wrong) > 12 && strings.Contains(err.Error(), wrong) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

// A file that makes no sense is refused with the place and the field. A token in a wrong place is not repeated.
func TestFilesThatAreRefused(t *testing.T) {
	token := NewToken()
	digest := token.Digest().String()
	for text, want := range map[string]string{
		"tokens: 3":                   "is not a file of tokens",
		"token: []":                   "field token not found",
		"- a":                         "is not a file of tokens",
		"a: b\n---\nc:":               "is not a file",
		"tokens: []\n---\ntokens: []": "a single YAML document",
		"tokens: [{name: a, sha256: " + digest + ", roles: [root]}]":// a role that is none
		`roles of token:a: role "root"`,
		"tokens: [{name: a, sha256: " + digest + "}]":                                                "no role",
		"tokens: [{name: a, sha256: " + token.Secret() + ", roles: [admin]}]":                        "sha256: must be 64",
		"tokens: [{name: " + token.Secret() + ", sha256: " + digest + ", roles: [admin]}]":           "name: is a token",
		"tokens: [{name: '', sha256: " + digest + ", roles: [admin]}]":                               "1 to 256",
		"tokens: [{name: 'a:b', sha256: " + digest + ", roles: [admin]}]":                            "no colon",
		"tokens: [{name: a, sha256: " + digest + ", roles: [admin], expires: soon}]":                 "expires of token:a",
		"tokens: [{name: a, sha256: " + digest + ", roles: [admin], extra: " + token.Secret() + "}]": "extra",
		"tokens: [{name: a, sha256: " + digest + ", roles: [admin]}, {name: a, sha256: " +
			strings.Repeat("00", 32) + ", roles: [admin]}]": "tokens[1]: name \"a\" is given twice",
		"tokens: [{name: a, sha256: " + digest + ", roles: [admin]}, {name: b, sha256: " + digest +
			", roles: [admin]}]": "tokens[1]: sha256: is that of token:a too",
		"certificates: [{name: web, roles: [client]}]":                                     "must begin with uri:",
		"certificates: [{name: 'token:a', roles: [client]}]":                               "must begin with uri:",
		"certificates: [{name: 'cn:a', roles: [client]}, {name: 'cn:a', roles: [client]}]": "given twice",
		"tokens: " + token.Secret():                                                        "is not a file of tokens",
	} {
		_, err := Parse([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), token.Secret()[len(tokenPrefix)+4:]) {
			t.Errorf("%s: the error shows the token: %v", text, err)
		}
	}
	for _, text := range []string{"", "# nothing\n", "tokens:\ncertificates:\n"} {
		if _, err := Parse([]byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// The first name of a certificate that the file has decides. No certificate has the name of a token.
func TestCertificateNames(t *testing.T) {
	_, line := lineOf(t, "web", Admin, time.Time{})
	book, err := Parse([]byte("tokens:\n" + line + "\ncertificates:\n- {name: 'uri:spiffe://x/web', roles: [client]}\n" +
		"- {name: 'cn:ops', roles: [operator], expires: '2026-07-01T14:00:00+02:00'}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		names []string
		who   string
		why   Refusal
	}{
		{[]string{"uri:spiffe://x/web", "cn:ops"}, "uri:spiffe://x/web", Accepted},
		{[]string{"uri:spiffe://x/other", "cn:ops"}, "cn:ops", Accepted},
		{[]string{"cn:web"}, "", Unknown},
		{[]string{"token:web"}, "", Unknown},
		{nil, "", Unknown},
	} {
		if id, why := book.Certificate(tt.names, moment().Add(-1)); id.Name != tt.who || why != tt.why {
			t.Errorf("%q: got %+v, %v", tt.names, id, why)
		}
	}
	if _, why := book.Certificate([]string{"cn:ops"}, moment()); why != Expired {
		t.Errorf("got %v, want Expired", why)
	}
}

// A keeper uses the new content of a changed file, added and removed names included. An invalid or missing file changes
// nothing, until it is valid again.
func TestReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "auth.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	one, first := lineOf(t, "one", Client, time.Time{})
	two, second := lineOf(t, "two", Admin, time.Time{})
	write("tokens:\n" + first + "\n")
	var log bytes.Buffer
	k, err := Open(path, hclog.New(&hclog.LoggerOptions{Output: &log}))
	if err != nil {
		t.Fatal(err)
	}
	was, _ := k.Book().Token(one, moment())
	expect := func(when string, hasOne, hasTwo, failing bool) {
		t.Helper()
		k.reload()
		k.reload() // new content counts at the second read
		_, o := k.Book().Token(one, moment())
		_, w := k.Book().Token(two, moment())
		if (o == Accepted) != hasOne || (w == Accepted) != hasTwo || k.Failing() != failing {
			t.Errorf("%s: one %v, two %v, failing %v", when, o, w, k.Failing())
		}
	}
	expect("unchanged", true, false, false)
	write("tokens:\n" + first + "\n" + second + "\n")
	expect("added", true, true, false)
	if _, why := k.Book().Now(was, moment()); why != Accepted {
		t.Errorf("the caller of before is %v", why)
	}
	write("tokens:\n" + second + "\n- {")
	expect("malformed", true, true, true)
	write("\n") // as a file is for a moment while it is written, and on a full disk for longer
	expect("empty", true, true, true)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	expect("gone", true, true, true)
	write("tokens:\n" + second + "\n")
	expect("removed", false, true, false)
	if _, why := k.Book().Now(was, moment()); why != Unknown {
		t.Errorf("the caller of a removed token is %v, want Unknown", why)
	}
	_, other := lineOf(t, "one", Client, time.Time{})
	write("tokens:\n" + other + "\n")
	expect("another token of the name", false, false, false)
	if _, why := k.Book().Now(was, moment()); why != Unknown {
		t.Errorf("the caller of a replaced token is %v, want Unknown", why)
	}
	for _, want := range []string{"added=[token:two]", "removed=[token:one]", "outcome=failed"} {
		if !strings.Contains(strings.ReplaceAll(log.String(), `"`, ""), want) {
			t.Errorf("the log lacks %s:\n%s", want, log.String())
		}
	}
}

// A file that is written line by line is valid after each line. A read in between removes no name: its streams would
// end. New content counts once two reads in a row have found it.
func TestAFileThatIsBeingWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "auth.yaml")
	one, first := lineOf(t, "one", Client, time.Time{})
	two, second := lineOf(t, "two", Admin, time.Time{})
	three, third := lineOf(t, "three", Admin, time.Time{})
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("tokens:\n" + first + "\n" + second + "\n")
	k, err := Open(path, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	whole := "tokens:\n" + second + "\n" + third + "\n"
	for _, part := range []string{"tokens:\n", "tokens:\n" + second + "\n", whole} {
		write(part)
		k.reload()
		if _, why := k.Book().Token(two, moment()); why != Accepted || k.Failing() {
			t.Errorf("after %d of %d bytes: the token of the former and the next file is %v, failing %v", len(part),
				len(whole), why, k.Failing())
		}
	}
	k.reload()
	_, gone := k.Book().Token(one, moment())
	if _, why := k.Book().Token(three, moment()); why != Accepted || gone != Unknown {
		t.Errorf("the whole file: the new token is %v, the removed one %v", why, gone)
	}
}

// Every act has one name, and calls that only read have none.
func TestTable(t *testing.T) {
	table := ClientPort()
	for method, call := range table {
		if call.Open == (call.Needs != 0) {
			t.Errorf("%s: is open %v, and needs %v", method, call.Open, call.Needs)
		}
		_, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
		reads := slices.ContainsFunc([]string{"Get", "List", "Watch", "Explain"}, func(p string) bool {
			return strings.HasPrefix(name, p)
		})
		operators := strings.Contains(method, "ClusterService/") || strings.Contains(method, "AdminService/")
		if operators && reads == (call.Act != "") {
			t.Errorf("%s: reads %v, and its act is %q", method, reads, call.Act)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("tokens: [{name: a, sha256: " +
		strings.Repeat("0", 64) + ", roles: [admin], expires: 2027-01-01T00:00:00Z}]"))
	f.Add([]byte("certificates:\n- {name: 'uri:a', roles: [client, reader]}\n"))
	f.Add([]byte("a: &a [*a]\ntokens: *a"))
	f.Fuzz(func(t *testing.T, b []byte) {
		book, err := Parse(b)
		if err != nil {
			return
		}
		tokens, certificates := book.Counts()
		if len(book.Entries()) != tokens+certificates {
			t.Errorf("%d entries, %d tokens, %d certificates", len(book.Entries()), tokens, certificates)
		}
		for _, id := range book.Entries() {
			if id.Roles == 0 || id.Roles&^AnyRole != 0 || id.Name == "" {
				t.Errorf("an entry is %+v", id)
			}
		}
	})
}

// A file has bounds in bytes and in entries, and a name in bytes.
func TestBoundsOfAFile(t *testing.T) {
	certificates := func(n, name int) []byte {
		b := []byte("certificates:\n")
		for i := range n {
			b = fmt.Appendf(b, "- {name: 'cn:%0*d', roles: [reader]}\n", name-len("cn:"), i)
		}
		return b
	}
	for _, text := range [][]byte{certificates(MaxEntries, 20), certificates(1, MaxName), make([]byte, 0)} {
		if _, err := Parse(text); err != nil {
			t.Errorf("%d bytes: %v", len(text), err)
		}
	}
	for want, text := range map[string][]byte{
		"larger than 4194304 bytes":              bytes.Repeat([]byte("#\n"), MaxFileBytes/2+1),
		"more than 10000 tokens or certificates": certificates(MaxEntries+1, 20),
		"name: must be 1 to 256":                 certificates(1, MaxName+1),
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: %v, want %q", len(text), err, want)
		}
	}
}
