package node

import (
	"slices"

	"holdfast/leader"
	"holdfast/node/watchdog"
	"holdfast/transport/clientport"
)

type (
	leaderFigures = leader.Stats
	clientFigures = clientport.Stats
)

// figures reads all figures once. The figures of a leader are zero on a node that does not lead.
func (n *Node) figures() *figures {
	f := &figures{
		node: n, client: n.ports.client.Stats(), stalls: n.watchdog.Stats(), replica: n.replica.stats(),
		tree: n.treeStatus(),
	}
	if n.ports.front != nil {
		f.zookeeper = n.ports.front.Stats()
	}
	f.led = n.roles.terms.tracker.totals()
	if t := n.roles.terms.tracker.Load(); t != nil {
		f.leader = t.Stats()
	}
	return f
}

// nodeMetrics describe the node and the sessions that it knows.
func nodeMetrics() []metric {
	return slices.Concat(sessionMetrics(), freezeMetrics(), healthMetrics(), electionMetrics())
}

func sessionMetrics() []metric {
	return []metric{
		gauge("raft_term", "Raft term this node has seen.", func(f *figures) float64 {
			return float64(f.node.view.Term())
		}).
			when("it rises though no node was stopped: there was an election"),
		gauge("raft_commit_index", "Raft index this node knows to be committed.", func(f *figures) float64 {
			return float64(f.node.consensus.raft.CommitIndex())
		}),
		gauge("applied_index", "Raft index of the newest entry the state machine has applied.",
			func(f *figures) float64 { return float64(f.node.view.AppliedIndex()) }).
			when("below raft_commit_index of the leader for 30 s: the node is behind"),
		gauge("sessions", "Replicated sessions that this node knows.", func(f *figures) float64 {
			return float64(f.node.view.Sessions())
		}).
			when("nodes differ for 30 s: one is behind"),
		gauge(
			"sessions_limit", "Most replicated sessions (max_sessions of the newest leader); 0 while nothing "+
				"bounds them.", func(f *figures) float64 {
				return float64(f.node.view.Usage().Capacity.MaxSessions)
			},
		).
			when("sessions is above 80 % of it: the log has a warning"),
		gauge(
			"state_bytes", "Memory of a node for replicated sessions and remembered request ids, as the cluster counts it.", func(f *figures) float64 { return float64(f.node.view.Usage().Bytes) },
		),
		gauge(
			"state_limit_bytes", "Largest state_bytes (max_state_bytes of the newest leader); 0 while nothing bounds "+
				"it.", func(f *figures) float64 {
				return float64(f.node.view.Usage().Capacity.MaxBytes)
			},
		).
			when("state_bytes is above 80 % of it: the log has a warning"),
		gauge("certificate_bytes", "Memory of a node for death certificates, as the cluster counts it: an eighth of "+
			"state_limit_bytes at most, beside it.",
			func(f *figures) float64 { return float64(f.node.view.Usage().CertificateBytes) }),
		gauge("requests_remembered", "Remembered request ids of opens (O2).", func(f *figures) float64 {
			return float64(f.node.view.Requests())
		}),
		gauge("node_numbers_used_up", "Numbers of removed nodes, which no node has again: 254 there are.",
			func(f *figures) float64 { return float64(f.node.view.CountUsedUp()) }).
			when("above 200: keep a node's directory when its machine changes, instead of removing the node"),
		gauge("sessions_local_bytes", "Memory for local sessions, counted as state_bytes is.",
			func(f *figures) float64 { return float64(f.node.server.LocalUsage().Bytes) }),
		gauge("sessions_attached", "Sessions that are attached to this node: it takes their touches.",
			func(f *figures) float64 {
				return float64(f.node.server.Stats().Attached)
			}),
		gauge("sessions_local", "Local sessions: this node alone knows them.", func(f *figures) float64 {
			return float64(f.node.server.Stats().Local)
		}),
		counter("sessions_local_expired", "Local sessions that expired.", func(f *figures) float64 {
			return float64(f.node.server.Stats().LocalExpired)
		}),
		counter("sessions_local_upgraded", "Local sessions that became replicated sessions.",
			func(f *figures) float64 { return float64(f.node.server.Stats().LocalUpgraded) }),
		gauge("local_ids", "Ids in stock for local sessions.", func(f *figures) float64 {
			return float64(f.node.server.Stats().LocalIDs)
		}).
			when("0 with local_sessions on: opens of local sessions wait, then fail"),
	}
}

func healthMetrics() []metric {
	return []metric{
		gauge("ready", "1 while the node serves.", func(f *figures) float64 {
			return truth(f.node.health.check() == nil)
		}).
			when("0 for 30 s"),
		gauge("jeopardy", "1 while the node hears of no good round.", func(f *figures) float64 {
			return truth(f.node.server.Stats().Jeopardy)
		}).
			when("1 for 10 s: its clients go to other nodes"),
		gauge("draining", "1 while the node is being drained (Q1), by an operator or because it stops.",
			func(f *figures) float64 { return truth(f.node.health.drain.on()) }).
			when("1 though nobody works on the node: holdfast cluster undrain"),
		gauge(
			"settings_differ", "Settings with different values on other nodes, as of this node's last meeting with "+
				"each.", func(f *figures) float64 { return float64(len(f.node.admission.agreement.drift())) },
		).
			when("above 0 while no setting is being changed: the log names the settings"),
		gauge(
			"mode", "What the node serves: 1 reads and writes, 2 reads of its applied state, 3 neither, because it "+
				"has no leader (N1).", func(f *figures) float64 { return float64(f.node.server.State().Mode) },
		).
			when("not 1 for 30 s"),
		counter("stalls", "Times that the process or its machine did not run for longer than a heartbeat interval.",
			func(f *figures) float64 { return float64(f.node.server.Stats().Stalls) }).
			when("it rises: the machine is starved, or was paused"),
		counter("log_entries_proposed", "Raft entries that this node has proposed.", func(f *figures) float64 {
			return float64(f.node.consensus.proposer.Stats().Entries)
		}),
		counter("log_commands_proposed",
			"Commands in the entries that this node has proposed: group commit puts many into one entry.",
			func(f *figures) float64 { return float64(f.node.consensus.proposer.Stats().Commands) }),
		counter("log_bytes_proposed", "Bytes of the entries that this node has proposed.", func(f *figures) float64 {
			return float64(f.node.consensus.proposer.Stats().Bytes)
		}),
		counter("log_writes", "Batches of entries written to this node's Raft log, each with two syncs.",
			func(f *figures) float64 { return float64(f.node.consensus.stores.guard.writes.Load()) }),
		counter("commit_notices", "Notices of commits that followers of this node have taken (R7).",
			func(f *figures) float64 { return float64(f.node.consensus.notice.notices.Stats().Taken) }),
		counter("commit_notices_failed", "Notices of commits that a follower refused or did not answer in time (R7).",
			func(f *figures) float64 { return float64(f.node.consensus.notice.notices.Stats().Failed) }),
		counter("entries_ahead",
			"Requests with entries that followers of this node have taken while it wrote the entries (R8).",
			func(f *figures) float64 { return float64(f.node.consensus.notice.notices.Stats().Ahead) }),
		counter("log_outcomes_unknown", "Commands with an unknown outcome, as their callers were told.",
			func(f *figures) float64 { return float64(f.node.consensus.proposer.Stats().Unknown) }).
			when("it rises though the leader has not changed"),
	}
}

// electionMetrics describe what this node did because its leader was gone (F1 to F4).
func electionMetrics() []metric {
	return []metric{
		counter("leader_looks", "Times that this node asked the leader's address whether it leads, because the leader's "+
			"connections had ended or another voter said so (F1).",
			func(f *figures) float64 { return float64(f.node.successor.looks.Load()) }).
			when("it rises though no node was stopped: connections on Raft's port are cut"),
		counter("elections_backed", "Times that this node backed another that was to stand at once (F2).",
			func(f *figures) float64 { return float64(f.node.successor.backed.Load()) }),
		counter("elections_stood", "Times that this node stood at once, because a majority of the voters found the "+
			"leader gone (F4).", func(f *figures) float64 { return float64(f.node.successor.stood.Load()) }),
	}
}

// stallMetrics describe what the watchdog finds.
func stallMetrics() []metric {
	const stalls = "Times that the node stepped out because a write (disk) or an entry (apply) took longer than " +
		"stall_limit, or because its data directory was removed, moved or replaced (directory); and times that the " +
		"process did not run for stall_limit (scheduler)."
	var all []metric
	for r := range watchdog.Reasons {
		all = append(all,
			gauge("node_stalled", "1 while the node has stepped out because a write (disk) or an entry (apply) takes "+
				"longer than stall_limit, or because its data directory was removed, moved or replaced (directory).",
				func(f *figures) float64 { return truth(f.stalls.Stalls[r]) }).of(r.String()).
				when("1: its disk, its machine or its directory is at fault; /healthz says what to do"),
			counter("node_stalls", stalls, func(f *figures) float64 {
				return float64(f.stalls.Stalled[r])
			}).of(r.String()).
				when("it rises"))
	}
	return append(all, counter("node_stalls", stalls, func(f *figures) float64 {
		return float64(f.stalls.Paused)
	}).of("scheduler").
		when("it rises"))
}

// replicaMetrics describe the comparison of the nodes' states.
func replicaMetrics() []metric {
	return []metric{
		gauge("state_differs", "1 once this node has stepped out for good because its state differs from a quorum's.",
			func(f *figures) float64 { return truth(f.replica.differs) }).
			when("1: see \"A node whose state differs\""),
		gauge("states_apart", "1 while nodes have different states and no quorum has the same state.",
			func(f *figures) float64 { return truth(f.replica.apart) }).
			when("1: see \"A node whose state differs\""),
		counter("state_damages", "Times that the node found its state in memory damaged.",
			func(f *figures) float64 { return float64(f.replica.damages) }).
			when("above 0: its memory, or the program, is at fault"),
		gauge("older_copy", "1 while the data directory has an older copy of itself, which was put back and set aside.",
			func(f *figures) float64 { return truth(f.node.dir.aside() != "") }).
			when("1: see \"An older copy was put back\""),
		gauge(
			"state_compared_index", "Newest Raft index at which this node's state was compared and equal to a "+
				"quorum's.", func(f *figures) float64 { return float64(f.replica.equal) },
		),
	}
}

func portMetrics() []metric {
	const ended = "Connections that the node ended, by the limit that was exceeded."
	return append([]metric{
		gauge("client_connections", "Open connections on the client port.", func(f *figures) float64 {
			return float64(f.client.Connections)
		}).
			when("close to max_connections"),
		gauge("client_streams", "Open Connect streams.", func(f *figures) float64 { return float64(f.client.Streams) }),
		gauge("client_calls", "Calls under way, including Connect streams.", func(f *figures) float64 {
			return float64(f.client.Calls)
		}).
			when("close to the limit: a quarter more than max_connections"),
		counter("client_calls_refused", "Calls refused because there were too many.",
			func(f *figures) float64 { return float64(f.client.RefusedCalls) }).
			when("it rises"),
		counter("client_connections_evicted", "Idle connections that the node closed to make room for others.",
			func(f *figures) float64 { return float64(f.client.Evicted) }).
			when("it rises: too many idle clients, or strangers"),
		counter("client_connections_refused", "Connections refused because there were too many.",
			func(f *figures) float64 { return float64(f.client.Refused) }).
			when("it rises"),
		counter("client_connections_refused_per_address",
			"Connections refused because their address had max_connections_per_address already.",
			func(f *figures) float64 { return float64(f.client.RefusedPerAddress) }),
		gauge("client_waiting_bytes",
			"Bytes that wait for clients: unread answers, requests under way and incomplete messages.",
			func(f *figures) float64 { return float64(f.client.Waiting) }).
			when("close to max_waiting_bytes"),
		counter("client_connections_ended", ended, func(f *figures) float64 {
			return float64(f.client.Overfull)
		}).of("waiting_bytes_per_connection").
			when("it rises"),
		counter("client_connections_ended", ended, func(f *figures) float64 {
			return float64(f.client.Relieved)
		}).of("max_waiting_bytes").
			when("it rises"),
		counter("client_slow_readers", "Connect streams that the node ended because their client did not read.",
			func(f *figures) float64 { return float64(f.client.SlowReaders) }).
			when("it rises"),
		counter("client_requests_failed", "Refused requests on Connect streams.", func(f *figures) float64 {
			return float64(f.client.Failed)
		}),
		counter("client_panics", "Handlers that panicked. Each panic is a fault of the program.",
			func(f *figures) float64 { return float64(f.client.Panics) }).
			when("above 0: report the fault, with the log"),
	}, slices.Concat(treeMetrics(), gateMetrics(), zooKeeperMetrics())...)
}

// leaderMetrics describe the term that this node leads. They begin again with each term, and are 0 on a node that does
// not lead. What a rate is wanted of is in ledMetrics.
func leaderMetrics() []metric {
	return []metric{
		gauge("leads", "1 while this node leads a term.", func(f *figures) float64 {
			return truth(f.leader.Term != 0)
		}).
			when("the sum over all nodes is not 1 for 10 s"),
		gauge("term_good_round", "Number of the newest good round.", func(f *figures) float64 {
			return float64(f.leader.GoodRound)
		}),
		gauge("term_sessions_tracked", "Sessions in the tracker.", func(f *figures) float64 {
			return float64(f.leader.Sessions)
		}),
		gauge("term_sessions_due", "Sessions that are due and wait for a good round or their owner's answer (E2).",
			func(f *figures) float64 { return float64(f.leader.Due) }).
			when("above 0 for 10 s: nothing expires"),
		gauge("term_sessions_closing", "Sessions marked as closing.", func(f *figures) float64 {
			return float64(f.leader.Closing)
		}),
		gauge("term_members_connected", "Members with a stream to this leader.", func(f *figures) float64 {
			return float64(f.leader.Members)
		}),
		gauge("term_members_lost", "Members that are lost (E1).", func(f *figures) float64 {
			return float64(f.leader.Lost)
		}).
			when("above 0 for 30 s: a node is down or cut off"),
		gauge("term_fill_seconds", "Time from the term's start until every session was in the queue; 0 until then.",
			func(f *figures) float64 { return seconds(f.leader.FillTime) }),
	}
}

// ledMetrics count what this node has done in all terms that it has led since it started. A sum over all nodes is the
// cluster's, and goes on over a change of the leader.
func ledMetrics() []metric {
	return []metric{
		counter("led_rounds", "Heartbeat rounds that this node has begun as the leader.", func(f *figures) float64 {
			return float64(f.led.Rounds)
		}),
		counter("led_seconds", "Accountable time of the terms that this node has led (A1).",
			func(f *figures) float64 { return seconds(f.led.Elapsed) }),
		counter("led_credited_seconds", "Time of the terms that this node has led that aged no session (A1).",
			func(f *figures) float64 { return seconds(f.led.Credited) }).
			when("it rises: the leader had no quorum, or did not run"),
		counter("led_clock_stands", "Times that the accountable clock stood still.", func(f *figures) float64 {
			return float64(f.led.Stands)
		}),
		counter("sessions_expired", "Replicated sessions that expired while this node led.",
			func(f *figures) float64 { return float64(f.led.Expired) }).
			when("it rises faster than clients usually end"),
		counter("sessions_closed", "Replicated sessions that their clients closed while this node led.",
			func(f *figures) float64 { return float64(f.led.Closed) }),
		counter("sessions_killed", "Replicated sessions that operators ended while this node led.",
			func(f *figures) float64 { return float64(f.led.Killed) }),
		counter("opens_refused_full", "Opens and upgrades that this node refused as the leader, because max_sessions or "+
			"max_state_bytes was reached, or disks are full.", func(f *figures) float64 { return float64(f.led.Full) }).
			when("it rises: clients cannot open sessions"),
		counter("resumes_contested", "Resumes that this node refused as the leader, because another client took the session "+
			"less than half of its timeout ago and is still connected (M7).",
			func(f *figures) float64 { return float64(f.led.Contested) }).
			when("it goes on rising: two clients use one session; the leader's log names it"),
		counter("led_marks_returned", "Closing marks taken back (E4).", func(f *figures) float64 {
			return float64(f.led.Returned)
		}),
		counter("led_closes_unknown", "Closes with an unknown outcome (E4).", func(f *figures) float64 {
			return float64(f.led.Unknown)
		}).
			when("it rises"),
		counter("led_touches", "Touches that this node has taken as the leader.", func(f *figures) float64 {
			return float64(f.led.Taken)
		}),
		counter("led_touches_not_taken", "Touches of closing, moved or unknown sessions (S1).",
			func(f *figures) float64 { return float64(f.led.NotTaken) }),
		counter("led_writes", "Writes to the tree that this node took for the log as the leader (W1).",
			func(f *figures) float64 { return float64(f.led.Forwarded) }),
		counter("led_writes_refused", "Writes to the tree that this node did not put into the log as the leader (W4).",
			func(f *figures) float64 { return float64(f.led.WritesRefused) }).
			when("it rises steadily: the log is slower than the clients write"),
	}
}
