package clientport

import holdfastv1 "holdfast/proto/holdfast/v1"

// single returns the unary method that is equivalent to a stream's request: the same roles may call both. A touch has
// no equivalent, because it only renews results of other requests of the stream.
func single(m *holdfastv1.ClientMessage) string {
	switch m := m.GetMessage().(type) {
	case *holdfastv1.ClientMessage_Open:
		return holdfastv1.SessionService_OpenSession_FullMethodName
	case *holdfastv1.ClientMessage_Resume, *holdfastv1.ClientMessage_ResumeSessions:
		return holdfastv1.SessionService_ResumeSession_FullMethodName
	case *holdfastv1.ClientMessage_Close:
		return holdfastv1.SessionService_CloseSession_FullMethodName
	case *holdfastv1.ClientMessage_Upgrade:
		return holdfastv1.SessionService_UpgradeSession_FullMethodName
	case *holdfastv1.ClientMessage_Write:
		return holdfastv1.TreeService_Transact_FullMethodName
	case *holdfastv1.ClientMessage_Read:
		return singleRead(m.Read)
	case *holdfastv1.ClientMessage_AddWatches, *holdfastv1.ClientMessage_RemoveWatches:
		return holdfastv1.TreeService_Watch_FullMethodName
	default:
		return "" // a method that no role may call
	}
}

func singleRead(r *holdfastv1.TreeRead) string {
	switch r.GetRead().(type) {
	case *holdfastv1.TreeRead_Get:
		return holdfastv1.TreeService_Get_FullMethodName
	case *holdfastv1.TreeRead_Exists:
		return holdfastv1.TreeService_Exists_FullMethodName
	case *holdfastv1.TreeRead_List:
		return holdfastv1.TreeService_List_FullMethodName
	case *holdfastv1.TreeRead_Ephemerals:
		return holdfastv1.TreeService_GetEphemerals_FullMethodName
	case *holdfastv1.TreeRead_Acl:
		return holdfastv1.TreeService_GetACL_FullMethodName
	case *holdfastv1.TreeRead_Fence:
		return holdfastv1.TreeService_CheckFence_FullMethodName
	case *holdfastv1.TreeRead_Sync:
		return holdfastv1.TreeService_Sync_FullMethodName
	default:
		return ""
	}
}
