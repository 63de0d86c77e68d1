package session

// StateDigest is the digest of a replicated state at an index (I6 same state). Index 0 means none.
type StateDigest struct {
	Index  uint64
	Digest [16]byte
}

// Comparison is the outcome of comparing the voters' digests at an index (C2 a quorum decides). Index 0 means none.
type Comparison struct {
	// StateDigest is the digest of a quorum of the voters. Its Digest is zero when no quorum has the same.
	StateDigest
	// Agreed says that a quorum has the same digest.
	Agreed bool
}
