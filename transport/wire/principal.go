package wire

import (
	"fmt"
	"strconv"
	"strings"

	"holdfast/session"
	"holdfast/tree"
)

// DigestKey is the metadata key with which a client authenticates for the tree (P1 principals): values NAME:PASSWORD,
// up to [MaxDigests] of them.
const DigestKey = "holdfast-digest"

// Bounds of the values of [DigestKey].
const (
	MaxDigests     = 8
	MaxDigestName  = 64
	MaxDigestBytes = 256
)

// AuthorizationKey is the metadata key of a client's bearer token: [BearerScheme], a space and the token.
const (
	AuthorizationKey = "authorization"
	BearerScheme     = "Bearer"
)

// ClientNameKey is the metadata key of the name that a client gives itself.
const ClientNameKey = "holdfast-client-name"

// ValidClientName reports whether a client may have this name: 1 to [session.MaxClientName] printable ASCII characters,
// no space at either end.
func ValidClientName(name string) bool {
	return name != "" && len(name) <= session.MaxClientName && strings.TrimSpace(name) == name &&
		strings.IndexFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}

// DigestFrom returns ZooKeeper's digest of a NAME:PASSWORD: NAME:HASH, where the hash is the SHA-1 of NAME:PASSWORD in
// base64. The error is a [session.FieldError] of [DigestKey], which does not show the password.
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

// ClientNameLimit describes the names that [ValidClientName] accepts.
func ClientNameLimit() string {
	return "1 to " + strconv.Itoa(session.MaxClientName) + " printable ASCII characters, no space at either end"
}
