package auth

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Bounds of the file.
const (
	// MaxFileBytes bounds the file. With 10,000 tokens it has about 1.3 MB.
	MaxFileBytes = 4 << 20
	// MaxEntries bounds the tokens and the certificates, each.
	MaxEntries = 10_000
	// MaxName bounds a name.
	MaxName = 256
)

// Book is the content of a file: the known callers with their roles. It never changes. Safe for concurrent use.
type Book struct {
	tokens map[Digest]Identity
	names  map[string]Identity
}

// file is the form of the file.
type file struct {
	Tokens       []tokenEntry       `yaml:"tokens"`
	Certificates []certificateEntry `yaml:"certificates"`
}

type tokenEntry struct {
	Name    string   `yaml:"name"`
	SHA256  string   `yaml:"sha256"`
	Roles   []string `yaml:"roles,flow"`
	Expires string   `yaml:"expires,omitempty"`
}

type certificateEntry struct {
	Name    string   `yaml:"name"`
	Roles   []string `yaml:"roles,flow"`
	Expires string   `yaml:"expires,omitempty"`
}

// Parse reads a file: YAML with the keys tokens and certificates. The error names the entry and the field; it never
// shows a value of sha256, because a user may have put the token itself there.
func Parse(b []byte) (*Book, error) {
	if len(b) > MaxFileBytes {
		return nil, fmt.Errorf("is larger than %d bytes", MaxFileBytes)
	}
	var f file
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("is not a file of tokens and certificates: %s", WithoutTokens(withoutQuotes(err)))
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("must be a single YAML document")
	}
	if len(f.Tokens) > MaxEntries || len(f.Certificates) > MaxEntries {
		return nil, fmt.Errorf("has more than %d tokens or certificates", MaxEntries)
	}
	book := &Book{tokens: make(map[Digest]Identity), names: make(map[string]Identity)}
	var errs []error
	for i, t := range f.Tokens {
		if err := book.addToken(t); err != nil {
			errs = append(errs, fmt.Errorf("tokens[%d]: %w", i, err))
		}
	}
	for i, c := range f.Certificates {
		if err := book.addCertificate(c); err != nil {
			errs = append(errs, fmt.Errorf("certificates[%d]: %w", i, err))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return book, nil
}

// withoutQuotes returns the text of a YAML error without the quoted values, which may be secrets.
func withoutQuotes(err error) string {
	text := err.Error()
	for {
		before, rest, opened := strings.Cut(text, "`")
		_, after, closed := strings.Cut(rest, "`")
		if !opened || !closed {
			return text
		}
		text = before + "a value" + after
	}
}

func (b *Book) addToken(t tokenEntry) error {
	if err := checkName(t.Name); err != nil {
		return err
	}
	if strings.ContainsAny(t.Name, " :") {
		return fmt.Errorf("name %q: must have no space and no colon", t.Name)
	}
	id, err := entry("token:"+t.Name, t.Roles, t.Expires)
	if err != nil {
		return err
	}
	sum, err := hex.DecodeString(t.SHA256)
	if err != nil || len(sum) != sha256.Size {
		return errors.New("sha256: must be 64 hexadecimal digits, as \"holdfast auth token new\" prints them; the token " +
			"itself must not be in this file")
	}
	id.digest = Digest(sum)
	if _, twice := b.names[id.Name]; twice {
		return fmt.Errorf("name %q is given twice", t.Name)
	}
	if other, twice := b.tokens[id.digest]; twice {
		return fmt.Errorf("sha256: is that of %s too", other.Name)
	}
	b.tokens[id.digest], b.names[id.Name] = id, id
	return nil
}

func (b *Book) addCertificate(c certificateEntry) error {
	if err := checkName(c.Name); err != nil {
		return err
	}
	kind, rest, _ := strings.Cut(c.Name, ":")
	if rest == "" || kind != "uri" && kind != "dns" && kind != "cn" {
		return fmt.Errorf("name %q: must begin with uri:, dns: or cn: and the rest", c.Name)
	}
	id, err := entry(c.Name, c.Roles, c.Expires)
	if err != nil {
		return err
	}
	if _, twice := b.names[id.Name]; twice {
		return fmt.Errorf("name %q is given twice", c.Name)
	}
	b.names[id.Name] = id
	return nil
}

// checkName checks a name that appears in logs and metrics. A token used as a name is refused without being shown.
func checkName(name string) error {
	printable := strings.IndexFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) < 0
	switch {
	case tokenText.MatchString(name):
		return errors.New("name: is a token, which is a secret: give the token a name")
	case name == "" || len(name) > MaxName || !printable || strings.TrimSpace(name) != name:
		return fmt.Errorf("name: must be 1 to %d printable ASCII characters, no space at either end", MaxName)
	default:
		return nil
	}
}

func entry(name string, roles []string, expires string) (Identity, error) {
	id := Identity{Name: name}
	var err error
	if id.Roles, err = ParseRoles(roles); err != nil {
		return Identity{}, fmt.Errorf("roles of %s: %w", name, err)
	}
	if expires != "" {
		if id.Expires, err = time.Parse(time.RFC3339, expires); err != nil {
			return Identity{}, fmt.Errorf("expires of %s: must be a time such as 2027-01-31T00:00:00Z", name)
		}
		id.Expires = id.Expires.UTC() // one form of each moment, because identities are compared
	}
	return id, nil
}

// Refusal is why a token or certificate identifies no caller.
type Refusal uint8

// Refusals.
const (
	// Accepted is none.
	Accepted Refusal = iota
	// Unknown: the file has no such token or name.
	Unknown
	// Expired: the entry's time has passed.
	Expired
)

// Token returns the owner of a token at now. The look-up uses the token's digest, and no caller can choose digests near
// an existing digest: the duration of the answer reveals no secret.
func (b *Book) Token(t Token, now time.Time) (Identity, Refusal) {
	digest := t.Digest()
	id, ok := b.tokens[digest]
	if !ok || subtle.ConstantTimeCompare(id.digest[:], digest[:]) != 1 {
		return Identity{}, Unknown
	}
	return id.at(now)
}

// Certificate returns who has one of the names of a certificate at now: the first name that the file has decides.
func (b *Book) Certificate(names []string, now time.Time) (Identity, Refusal) {
	for _, name := range names {
		if id, ok := b.names[name]; ok && id.digest == (Digest{}) {
			return id.at(now)
		}
	}
	return Identity{}, Unknown
}

// Now returns the identity in the book at now: with its present roles, or a refusal if the entry is gone, has another
// token, or has expired.
func (b *Book) Now(i Identity, now time.Time) (Identity, Refusal) {
	is, ok := b.names[i.Name]
	if !ok || is.digest != i.digest {
		return Identity{}, Unknown
	}
	return is.at(now)
}

func (i Identity) at(now time.Time) (Identity, Refusal) {
	if !i.Expires.IsZero() && !now.Before(i.Expires) {
		return Identity{}, Expired
	}
	return i, Accepted
}

// Counts returns how many tokens and certificates the book has.
func (b *Book) Counts() (tokens, certificates int) {
	return len(b.tokens), len(b.names) - len(b.tokens)
}

// Entries returns the identities of the book, unordered and without secrets.
func (b *Book) Entries() []Identity {
	all := make([]Identity, 0, len(b.names))
	for _, id := range b.names {
		all = append(all, id)
	}
	return all
}

// Line returns the line of the file for a token: name, digest, roles, and expiry unless it is zero.
func Line(name string, d Digest, roles Roles, expires time.Time) (string, error) {
	t := tokenEntry{Name: name, SHA256: d.String(), Roles: roles.Names()}
	line := fmt.Sprintf("- {name: %q, sha256: %q, roles: [%s]", t.Name, t.SHA256, strings.Join(t.Roles, ", "))
	if !expires.IsZero() {
		line += fmt.Sprintf(", expires: %q", expires.UTC().Format(time.RFC3339))
	}
	line += "}"
	_, err := Parse([]byte("tokens:\n" + line + "\n"))
	return line, err
}
