package session

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
)

// Credential proves that the cluster gave a session to a client. It is a secret (K-02).
type Credential [16]byte

// Format hides the bytes whatever the verb, so a token that is logged or printed by mistake reveals no credential.
// Package fmt calls no methods of values in unexported fields: do not print a struct with a credential in such a field.
func (Credential) Format(s fmt.State, _ rune) {
	_, _ = io.WriteString(s, "(secret)") // package fmt collects what is written, and never fails
}

// Key is the cluster key, from which credentials are computed. It is drawn once with crypto/rand, and replicated.
type Key [32]byte

// Credential returns the credential of id: HMAC-SHA256 of its 8 bytes, big-endian, cut to 16 bytes.
func (k *Key) Credential(id ID) Credential {
	// The two blocks of RFC 2104 for a key that is shorter than a block of SHA-256. Package hmac would allocate half a
	// kilobyte for them, and a leader checks a credential for each session that it moves.
	var inner [sha256.BlockSize + 8]byte
	var outer [sha256.BlockSize + sha256.Size]byte
	for i := range sha256.BlockSize {
		b := byte(0)
		if i < len(k) {
			b = k[i]
		}
		inner[i], outer[i] = b^0x36, b^0x5c
	}
	binary.BigEndian.PutUint64(inner[sha256.BlockSize:], uint64(id))
	sum := sha256.Sum256(inner[:])
	copy(outer[sha256.BlockSize:], sum[:])
	sum = sha256.Sum256(outer[:])
	return Credential(sum[:16])
}

// Cluster returns the identity of the cluster with the key. It is not 0, and each founding and each restore gives a new
// identity. The identity reveals nothing about the key.
func (k *Key) Cluster() uint64 {
	sum := sha256.Sum256(append([]byte("holdfast cluster "), k[:]...))
	return max(binary.BigEndian.Uint64(sum[:]), 1)
}

// Verify reports whether c is the credential of id, in constant time.
func (k *Key) Verify(id ID, c Credential) bool {
	want := k.Credential(id)
	return hmac.Equal(want[:], c[:])
}
