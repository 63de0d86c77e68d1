package node

import "holdfast/zk"

// zooKeeperMetrics describe the clients of ZooKeeper; all are 0 on a node that serves none.
func zooKeeperMetrics() []metric {
	count := func(name, help string, of func(s *zk.Stats) int64) metric {
		return counter("zookeeper_"+name, help, func(f *figures) float64 { return float64(of(&f.zookeeper)) })
	}
	return []metric{
		gauge("zookeeper_connections", "Connections of ZooKeeper's clients.",
			func(f *figures) float64 { return float64(f.zookeeper.Connections) }),
		count("sessions_served", "Sessions that ZooKeeper's clients opened here or came with.",
			func(s *zk.Stats) int64 { return s.Opened }),
		count("sessions_expired", "ZooKeeper's clients that were told that their session is gone, or their password wrong.",
			func(s *zk.Stats) int64 { return s.Expired }),
		count("requests", "Requests of ZooKeeper's clients, pings too.", func(s *zk.Stats) int64 { return s.Requests }),
		count("replies", "Replies to ZooKeeper's clients, pongs too.", func(s *zk.Stats) int64 { return s.Replies }),
		count("events", "Events of watches that ZooKeeper's clients were told.",
			func(s *zk.Stats) int64 { return s.Events }),
		count("sent_bytes", "Bytes sent to ZooKeeper's clients.", func(s *zk.Stats) int64 { return s.Sent }),
		count("refused", "Connections that ended with a refusal: an operation that is not served, a record that is none, "+
			"a wrong authentication.", func(s *zk.Stats) int64 { return s.Refused }),
		count("auth_failed", "Those of them whose client was not who it said it was.",
			func(s *zk.Stats) int64 { return s.Unauthentic }).when("it rises: somebody tries passwords"),
		count("unproven", "Connections that ended because no touch of their session was confirmed for a third of its "+
			"timeout (Z5).", func(s *zk.Stats) int64 { return s.Unproven }).
			when("it rises: the node hears of no quorum; its clients go to others"),
		count("rounds_asked", "Rounds that the node asked for, so that it may answer ZooKeeper's clients (Z5).",
			func(s *zk.Stats) int64 { return s.Rounds }),
	}
}
