package auth

import (
	"google.golang.org/grpc/health/grpc_health_v1"

	holdfastv1 "holdfast/proto/holdfast/v1"
)

// Call describes the requirements of a call.
type Call struct {
	// Needs are the allowed roles; the caller needs one of them. Open calls need neither a role nor a name.
	Needs Roles
	Open  bool
	// Act is the name of the act in the audit log; empty for a call that is not audited. Operators' calls that change
	// something, or that return secrets of the cluster, have an Act.
	Act string
}

// Table has the requirements of each call, by its full method. A call without a row is refused.
type Table map[string]Call

// Reflection of gRPC, both versions. Callers need a name, because reflection reveals the server's release.
const (
	reflectionV1      = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
	reflectionV1Alpha = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
)

// ClientPort is the table of the client port. The order is that of docs/operations/security.md.
func ClientPort() Table {
	t := Table{
		// Open: load balancers and probes have no tokens.
		grpc_health_v1.Health_Check_FullMethodName: {Open: true},
		grpc_health_v1.Health_List_FullMethodName:  {Open: true},
		grpc_health_v1.Health_Watch_FullMethodName: {Open: true},
	}
	t.need(AnyRole, reflectionV1, reflectionV1Alpha,
		// A client learns addresses, and reads the fate of a session that it knows by its id.
		holdfastv1.ClusterService_GetStatus_FullMethodName, holdfastv1.ClusterService_ListMembers_FullMethodName,
		holdfastv1.SessionService_GetSession_FullMethodName)
	t.need(Client,
		holdfastv1.SessionService_OpenSession_FullMethodName,
		holdfastv1.SessionService_ResumeSession_FullMethodName, holdfastv1.SessionService_TouchSessions_FullMethodName,
		holdfastv1.SessionService_UpgradeSession_FullMethodName, holdfastv1.SessionService_CloseSession_FullMethodName,
		holdfastv1.TreeService_Create_FullMethodName, holdfastv1.TreeService_Delete_FullMethodName,
		holdfastv1.TreeService_DeleteTree_FullMethodName, holdfastv1.TreeService_Set_FullMethodName,
		holdfastv1.TreeService_SetACL_FullMethodName, holdfastv1.TreeService_Transact_FullMethodName,
		holdfastv1.IdService_AllocateIds_FullMethodName)
	// A Connect stream is for all who may read the tree. Each of its requests has the requirements of the corresponding
	// single call, see [holdfast/transport/authz.Requests].
	t.need(Client|Reader, holdfastv1.SessionService_Connect_FullMethodName)
	t.need(Client|Reader, // within the access lists of the tree
		holdfastv1.TreeService_Get_FullMethodName, holdfastv1.TreeService_Exists_FullMethodName,
		holdfastv1.TreeService_List_FullMethodName, holdfastv1.TreeService_GetEphemerals_FullMethodName,
		holdfastv1.TreeService_GetACL_FullMethodName, holdfastv1.TreeService_CheckFence_FullMethodName,
		holdfastv1.TreeService_Sync_FullMethodName, holdfastv1.TreeService_Watch_FullMethodName)
	t.need(Reader,
		holdfastv1.SessionService_ListSessions_FullMethodName, holdfastv1.SessionService_WatchSessions_FullMethodName,
		holdfastv1.ClusterService_ListConnections_FullMethodName,
		holdfastv1.AdminService_ExplainSession_FullMethodName, holdfastv1.AdminService_ListDeaths_FullMethodName)
	// Operators' acts: each row has an Act.
	t[holdfastv1.AdminService_KillSessions_FullMethodName] = Call{Needs: Operator, Act: "kill sessions"}
	t[holdfastv1.ClusterService_DrainNode_FullMethodName] = Call{Needs: Operator, Act: "drain node"}
	t[holdfastv1.ClusterService_UndrainNode_FullMethodName] = Call{Needs: Operator, Act: "undrain node"}
	t[holdfastv1.AdminService_ExtendSession_FullMethodName] = Call{Needs: Operator, Act: "extend a session"}
	t[holdfastv1.AdminService_FreezeExpiry_FullMethodName] = Call{Needs: Operator, Act: "freeze expiry"}
	t[holdfastv1.AdminService_ThawExpiry_FullMethodName] = Call{Needs: Operator, Act: "thaw expiry"}
	t[holdfastv1.ClusterService_AddMember_FullMethodName] = Call{Needs: Admin, Act: "add member"}
	t[holdfastv1.ClusterService_PromoteMember_FullMethodName] = Call{Needs: Admin, Act: "promote member"}
	t[holdfastv1.ClusterService_DemoteMember_FullMethodName] = Call{Needs: Admin, Act: "demote member"}
	t[holdfastv1.ClusterService_RemoveMember_FullMethodName] = Call{Needs: Admin, Act: "remove member"}
	t[holdfastv1.ClusterService_TransferLeadership_FullMethodName] = Call{Needs: Operator, Act: "transfer leadership"}
	t[holdfastv1.ClusterService_TakeSnapshot_FullMethodName] = Call{Needs: Admin, Act: "take snapshot"}
	return t
}

func (t Table) need(roles Roles, methods ...string) {
	for _, method := range methods {
		t[method] = Call{Needs: roles}
	}
}

// SuperWrites is the act of a write that bypasses all access lists of the tree (P1 principals). It has no row: such
// writes share streams with other writes, and rows are about calls.
const SuperWrites = "write as super"

// Acts returns the names of the acts of a table, each once, and [SuperWrites].
func (t Table) Acts() []string {
	seen := make(map[string]bool)
	acts := []string{SuperWrites}
	for _, call := range t {
		if call.Act != "" && !seen[call.Act] {
			seen[call.Act] = true
			acts = append(acts, call.Act)
		}
	}
	return acts
}
