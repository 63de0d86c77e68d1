package fence

import (
	"fmt"
	"strconv"
	"strings"
)

// Token is a fencing token: the stamp of the change that created a lock's entry. A later acquisition of the same lock
// has a larger token. The zero value is no token, and every resource refuses it.
type Token uint64

const positionBits = 16

// Max is the largest token. A token is positive as an int64 too, so it fits into a bigint column.
const Max Token = 1<<63 - 1

// maxShown bounds how much of a text that is no token an error keeps.
const maxShown = 64

// TokenError reports an invalid token: a text of another form, or a number out of bounds.
type TokenError struct {
	// Text is the value, cut to 64 bytes.
	Text string
	// Problem describes the fault.
	Problem string
}

// Error names the value and the fault.
func (e *TokenError) Error() string { return fmt.Sprintf("fence token %q: %s", e.Text, e.Problem) }

// Parse reads only texts of [Token.String]: a token has one text. The error is a [*TokenError].
func Parse(text string) (Token, error) {
	index, position, _ := strings.Cut(text, ".")
	i, err := strconv.ParseUint(index, 10, 63-positionBits)
	p, positionErr := strconv.ParseUint(position, 10, positionBits)
	t := Token(i<<positionBits | p)
	var shortest [32]byte
	if err != nil || positionErr != nil || string(t.append(shortest[:0])) != text {
		return 0, &TokenError{
			Text:    strings.Clone(text[:min(len(text), maxShown)]),
			Problem: fmt.Sprintf("must be INDEX.POSITION without leading zeros, such as 1024.3; at most %v", Max),
		}
	}
	return t, nil
}

// String returns the token's text for people and headers: the index of a log entry and a position in it, such as
// 1024.3.
func (t Token) String() string { return string(t.append(make([]byte, 0, 32))) }

// AppendText appends [Token.String] to b. It refuses tokens that [Parse] would refuse with a [*TokenError].
func (t Token) AppendText(b []byte) ([]byte, error) {
	if t > Max {
		return b, t.invalid()
	}
	return t.append(b), nil
}

// MarshalText returns [Token.String]. It refuses tokens that [Parse] would refuse with a [*TokenError].
func (t Token) MarshalText() ([]byte, error) { return t.AppendText(nil) }

// UnmarshalText is [Parse].
func (t *Token) UnmarshalText(text []byte) (err error) {
	*t, err = Parse(string(text))
	return err
}

func (t Token) append(b []byte) []byte {
	b = strconv.AppendUint(b, uint64(t>>positionBits), 10)
	return strconv.AppendUint(append(b, '.'), uint64(t&(1<<positionBits-1)), 10)
}

// check refuses values that no lock has as its token.
func (t Token) check() error {
	if t == 0 || t > Max {
		return t.invalid()
	}
	return nil
}

func (t Token) invalid() error {
	return &TokenError{Text: t.String(), Problem: fmt.Sprintf("no lock has it: must be 0.1 to %v", Max)}
}
