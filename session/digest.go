package session

// StateDigest is the digest of a replicated state at an index (I6). Index 0: none.
type StateDigest struct {
	Index  uint64
	Digest [16]byte
}

// Comparison is what comparing digests at an index has found (D2). Index 0: none.
type Comparison struct {
	// StateDigest is that of a quorum of the voters; its Digest is zero when there is none.
	StateDigest
	// Agreed says that there is one. If not, they differ.
	Agreed bool
}
