package session_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"testing"

	"holdfast/session"
)

// K-02: without the cluster's key nobody can compute an id's credential, and two ids have different credentials.
// Clients keep credentials over a change of version, so their bytes are fixed.
func TestCredentialNeedsTheKey(t *testing.T) {
	var ours, theirs session.Key
	for i := range ours {
		ours[i], theirs[i] = byte(i), byte(i)
	}
	theirs[31]++
	const id, next session.ID = 0x0100000003e80000, 0x0100000003e80001
	secret := ours.Credential(id)
	if theirs.Credential(id) == secret || theirs.Verify(id, secret) {
		t.Error("another key gives the same credential")
	}
	if ours.Credential(next) == secret || ours.Verify(next, secret) {
		t.Error("another id has the same credential")
	}
	if !ours.Verify(id, secret) {
		t.Error("Verify refuses the credential of the id")
	}
	for i := range secret {
		wrong := secret
		wrong[i] ^= 1
		if ours.Verify(id, wrong) {
			t.Errorf("Verify accepts a credential whose byte %d is wrong", i)
		}
	}
	// HMAC-SHA256 of the id's 8 bytes under the bytes 0 to 31, cut to 16 bytes.
	if got, want := hex.EncodeToString(secret[:]), "a6c82894060c4534ea0d7dd5289d8c75"; got != want {
		t.Errorf("credential of %v is %s, want %s", id, got, want)
	}
}

// The credential is what package hmac computes, and costs no allocation.
func TestCredentialIsAnHMAC(t *testing.T) {
	var k session.Key
	for i := range k {
		k[i] = byte(7 * i)
	}
	for _, id := range []session.ID{1, 0x0102030405060708, ^session.ID(0)} {
		mac := hmac.New(sha256.New, k[:])
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(id)))
		if got, want := k.Credential(id), session.Credential(mac.Sum(nil)); got != want {
			t.Errorf("credential of %v is %x, want %x", id, got[:], want[:])
		}
	}
	if n := testing.AllocsPerRun(100, func() { k.Verify(5, session.Credential{}) }); n != 0 {
		t.Errorf("a check allocates %v times", n)
	}
}
