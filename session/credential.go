package session

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
)

// Credential proves that a client was given a session. It is a secret (K-02).
type Credential [16]byte

// Format hides the bytes whatever the verb, so a token that is logged or printed by mistake reveals no credential.
// Package fmt calls no methods of values in unexported fields: do not print a struct that holds a credential in one.
func (Credential) Format(s fmt.State, _ rune) {
	_, _ = io.WriteString(s, "(secret)") // package fmt collects what is written, and never fails
}

// Key is the cluster key that credentials are computed with. It is drawn once with crypto/rand, and replicated.
type Key [32]byte

// Credential returns the credential of id: HMAC-SHA256 of its 8 bytes, big-endian, cut to 16 bytes.
func (k *Key) Credential(id ID) Credential {
	mac := hmac.New(sha256.New, k[:])
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(id))
	mac.Write(b[:])
	return Credential(mac.Sum(nil)[:16])
}

// Verify reports whether c is the credential of id, in constant time.
func (k *Key) Verify(id ID, c Credential) bool {
	want := k.Credential(id)
	return hmac.Equal(want[:], c[:])
}
