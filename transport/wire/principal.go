package wire

import (
	"fmt"
	"strconv"
	"strings"

	"holdfast/session"
	"holdfast/tree"
)

// DigestKey is the metadata key with which a client authenticates for the tree (P1): a value NAME:PASSWORD, of which it
// may send up to [MaxDigests].
const DigestKey = "holdfast-digest"

// Bounds of the values of [DigestKey].
const (
	MaxDigests     = 8
	MaxDigestName  = 64
	MaxDigestBytes = 256
)

// AuthorizationKey is the metadata key with which a client shows its bearer token: a value of [BearerScheme], a space
// and the token.
const (
	AuthorizationKey = "authorization"
	BearerScheme     = "Bearer"
)

// PrincipalKey is the metadata key with which a client names its principal.
const PrincipalKey = "holdfast-principal"

// ValidPrincipal reports whether a client may have this name: 1 to [session.MaxPrincipal] printable ASCII characters,
// no space at either end.
func ValidPrincipal(name string) bool {
	return name != "" && len(name) <= session.MaxPrincipal && strings.TrimSpace(name) == name &&
		strings.IndexFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}

// DigestFrom returns ZooKeeper's digest of a NAME:PASSWORD: NAME:HASH, the hash being the SHA-1 of both in base64. The
// error is a [session.FieldError] of [DigestKey], which does not show the password.
func DigestFrom(credentials string) (string, error) {
	name, _, whole := strings.Cut(credentials, ":")
	digest, ok := tree.DigestOf(credentials)
	printable := strings.IndexFunc(credentials, func(r rune) bool { return r < ' ' || r > '~' }) < 0
	if !whole || !ok || len(name) > MaxDigestName || len(credentials) > MaxDigestBytes || !printable {
		return "", &session.FieldError{Field: DigestKey, Limit: fmt.Sprintf("NAME:PASSWORD, at most %d printable ASCII "+
			"characters, 1 to %d of them in NAME", MaxDigestBytes, MaxDigestName)}
	}
	return digest, nil
}

// PrincipalLimit describes the names that [ValidPrincipal] accepts.
func PrincipalLimit() string {
	return "1 to " + strconv.Itoa(session.MaxPrincipal) + " printable ASCII characters, no space at either end"
}
