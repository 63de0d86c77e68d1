package raftnet

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
)

// Key is the secret of a data directory: the seed of an Ed25519 key. Whoever has it can pose as the directory's node on
// a port without TLS. The zero Key is no key.
type Key [ed25519.SeedSize]byte

// NewKey returns the key of a new directory.
func NewKey() Key {
	for {
		var k Key
		_, _ = rand.Read(k[:]) // never fails: crypto/rand ends the process instead
		if k != (Key{}) && k.Directory() != 0 {
			return k
		}
	}
}

// Directory returns the identity of the key's directory. The identity is no secret.
func (k Key) Directory() Directory { return directoryOf(k.private()[ed25519.SeedSize:]) }

// directoryOf returns the identity for the public half of a directory's key: a prefix of its hash. Finding another key
// with the same prefix takes 2^64 tries.
func directoryOf(public []byte) Directory {
	sum := sha256.Sum256(append([]byte("holdfast directory\n"), public...))
	return Directory(binary.BigEndian.Uint64(sum[:]))
}

func (k Key) private() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(k[:]) }

// String does not show the key.
func (k Key) String() string { return "the key of directory " + k.Directory().String() }

// MarshalText returns the key as hexadecimal digits.
func (k Key) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(k[:])), nil }

// UnmarshalText is the inverse of MarshalText.
func (k *Key) UnmarshalText(b []byte) error {
	seed, err := hex.DecodeString(string(b))
	if err != nil || len(seed) != len(k) {
		return fmt.Errorf("a directory's key is %d hexadecimal digits", 2*len(k))
	}
	copy(k[:], seed)
	return nil
}

// proof shows that the sender of a greeting runs on a directory: the public half of the directory's key, and a
// signature over everything that both sides have sent so far. Each side has sent 32 random bytes, so no proof fits
// another connection.
type proof [proofBytes]byte

const proofBytes = ed25519.PublicKeySize + ed25519.SignatureSize

// sideDialled and sideDialler make a proof of one side invalid for the other.
const (
	sideDialled = "holdfast raft greeting, dialled\n"
	sideDialler = "holdfast raft greeting, dialler\n"
)

func (k Key) prove(side string, said []byte) (p proof) {
	private := k.private()
	n := copy(p[:], private[ed25519.SeedSize:]) // the public half
	copy(p[n:], ed25519.Sign(private, append([]byte(side), said...)))
	return p
}

var errUnproven = errors.New("the greeting does not prove the data directory that it names")

// check returns an error unless p proves the directory d.
func (p proof) check(d Directory, side string, said []byte) error {
	public, signature := p[:ed25519.PublicKeySize], p[ed25519.PublicKeySize:]
	if directoryOf(public) != d || !ed25519.Verify(public, append([]byte(side), said...), signature) {
		return errUnproven
	}
	return nil
}

// Position is the progress of a data directory: its newest Raft term, and its newest entry of that term, 0 for none. It
// never falls (J6 rolled-back directories): the term never does, and entries of a term are never cut off within that
// term. Entries of earlier terms do not count: the leader of the term may cut them off, and they may be more than the
// leader has.
type Position struct {
	Term  uint64 `json:"term"`
	Index uint64 `json:"index"`
}

// PositionIn returns the position of a directory in a term; entry is its newest entry, of the term of.
func PositionIn(term, entry, of uint64) Position {
	if of != term {
		entry = 0
	}
	return Position{term, entry}
}

// Behind reports whether p is behind another position: of an earlier term, or of the same term with fewer entries.
func (p Position) Behind(other Position) bool {
	return p.Term < other.Term || p.Term == other.Term && p.Index < other.Index
}

// sound reports whether an honest node can have reached p.
func (p Position) sound() bool { return p.Term <= FarTerm && p.Index <= maxIndex }
