package node

// treeMetrics describe the tree, and what clients ask of it.
func treeMetrics() []metric {
	return []metric{
		gauge("feature_level", "The feature level of the cluster (W8).",
			func(f *figures) float64 { return float64(f.tree.FeatureLevel) }),
		gauge("tree_entries", "Entries of the tree.", func(f *figures) float64 { return float64(f.tree.Entries) }),
		gauge("tree_ephemerals", "Ephemeral entries of the tree.",
			func(f *figures) float64 { return float64(f.tree.Ephemerals) }),
		gauge("tree_bytes", "Memory that the entries of the tree take, with paths, data, access lists and indexes.",
			func(f *figures) float64 { return float64(f.tree.Bytes) }).
			when("above 80 % of tree_limit_bytes: the log has a warning; at the limit, what adds to the tree is refused"),
		gauge("tree_limit_bytes", "Largest tree_bytes (max_tree_bytes of the newest leader).",
			func(f *figures) float64 { return float64(f.tree.Limit) }),
		gauge("tree_results_bytes", "Results and wills that are kept for sessions.",
			func(f *figures) float64 { return float64(f.tree.Results) }).
			when("it rises though tree_entries does not: clients do not acknowledge results"),
		gauge("tree_watches", "Watches of the connections of this node.",
			func(f *figures) float64 { return float64(f.tree.Watches) }),
		gauge("tree_watch_bytes", "Bytes that watches take of this node, as watch_bytes_per_node counts them (V1).",
			func(f *figures) float64 { return float64(f.node.server.Stats().WatchBytes) }).
			when("above half of 268435456: holdfast cluster connections shows who has many"),
		counter("client_tree_reads", "Reads of the tree that clients asked for.",
			func(f *figures) float64 { return float64(f.client.TreeReads) }),
		counter("client_tree_writes", "Writes of the tree that clients asked for; a repeat counts again.",
			func(f *figures) float64 { return float64(f.client.TreeWrites) }),
		counter("client_tree_watches", "Requests of clients to add watches.",
			func(f *figures) float64 { return float64(f.client.TreeWatches) }),
		counter("client_tree_events", "Events of the tree that clients were told.",
			func(f *figures) float64 { return float64(f.client.TreeEvents) }),
		counter("client_tree_stood", "Connect streams that the node ended because it could take no more requests of theirs "+
			"for a sixth of a session's timeout (G8).", func(f *figures) float64 { return float64(f.client.TreeStood) }).
			when("it rises: the log is slower than what clients write, or they do not take their answers"),
		counter("client_tree_stuck", "Connect streams that the node ended because their client took nothing of the tree for "+
			"a third of a session's timeout (G9); they are slow readers too.",
			func(f *figures) float64 { return float64(f.client.TreeStuck) }),
	}
}
