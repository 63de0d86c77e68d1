package session

// FeatureLevel is the newest feature level that this program knows (W8). The cluster's level stands in its log: the
// Configure that founds the cluster sets it. A node stops at an entry or a snapshot with a higher level.
const FeatureLevel = 1
