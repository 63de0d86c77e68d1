package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"regexp"
	"strings"
)

// tokenPrefix begins each token, so that people and programs recognize a leaked token.
const tokenPrefix = "holdfast_"

// secretBytes is the number of random bytes in a token. 32 random bytes cannot be guessed, so one SHA-256 protects them
// on disk: a slow hash is for passwords, and would cost each call tens of milliseconds.
const secretBytes = 32

// Token is a bearer token: a secret. It prints as a placeholder, so that no log and no error shows it.
type Token struct{ secret string }

// Digest is a token's SHA-256, as files store it.
type Digest [sha256.Size]byte

// NewToken returns a token of 32 random bytes.
func NewToken() Token {
	var b [secretBytes]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the process first
	return Token{tokenPrefix + base64.RawURLEncoding.EncodeToString(b[:])}
}

// ErrNotToken refuses an invalid token without repeating the text.
var ErrNotToken = errors.New("not a token: must be holdfast_ and 43 characters, " +
	"as \"holdfast auth token new\" prints it")

// ParseToken reads a token, with white space around it. The error is [ErrNotToken].
func ParseToken(text string) (Token, error) {
	text = strings.TrimSpace(text)
	secret, ok := strings.CutPrefix(text, tokenPrefix)
	if !ok || len(text) != len(tokenPrefix)+base64.RawURLEncoding.EncodedLen(secretBytes) {
		return Token{}, ErrNotToken
	}
	if _, err := base64.RawURLEncoding.Strict().DecodeString(secret); err != nil {
		return Token{}, ErrNotToken // the cause would quote a byte of the secret
	}
	return Token{text}, nil
}

// String returns a placeholder.
func (Token) String() string { return tokenPrefix + "(secret)" }

// GoString returns a placeholder.
func (t Token) GoString() string { return t.String() }

// Secret returns the text of the token, for its maker or its sender.
func (t Token) Secret() string { return t.secret }

// Digest returns the token's digest.
func (t Token) Digest() Digest { return sha256.Sum256([]byte(t.secret)) }

// String is the digest in hexadecimal.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// tokenText matches text that looks like a token, or like most of a token.
var tokenText = regexp.MustCompile(`\b` + tokenPrefix + `[0-9A-Za-z_-]{16,}`)

// WithoutTokens returns s with a placeholder for each token in it.
func WithoutTokens(s string) string { return tokenText.ReplaceAllString(s, Token{}.String()) }
