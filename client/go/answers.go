package kiln

import (
	"cmp"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	spb "google.golang.org/genproto/googleapis/rpc/status"

	kilnv1 "kiln/v1"
)

// What a stream's answers do to its link. They come in the order of their commands; a server whose answers cannot be
// ends the link.

// take gives the failure that the link must end with, if there is one.
func (l *link) take(answer *kilnv1.SubmitResponse) *Error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if welcome := answer.GetWelcome(); welcome != nil {
		return l.giveUp(welcome.AnswersLost)
	}
	command := answer.CommandId
	if command <= l.seen { // it comes a second time
		return nil
	}
	if command > l.last {
		return badServer("answered command %d of %d", command, l.last)
	}
	if skipped := l.askedBefore(command); len(skipped) > 0 {
		return badServer("answered command %d before %d", command, skipped[0])
	}
	future := l.asked[command]
	if data := answer.GetData(); future != nil && len(data) > 0 {
		if uint64(len(data)) > future.room-uint64(len(future.data)) {
			return badServer("answered command %d with more than the %d bytes asked for", command, future.room)
		}
		future.data = append(future.data, data...)
	}
	if answer.More {
		return nil
	}
	var failed *Error
	if said := answer.GetFailed(); said != nil {
		failed = ofCommand(said, command)
	}
	if future == nil && failed != nil && l.failure == nil {
		l.failure = failed
	}
	l.confirm(command)
	if future != nil {
		delete(l.asked, command)
		future.set(answer, failed)
	}
	return nil
}

// badServer is the failure of what no server may say.
func badServer(format string, values ...any) *Error {
	return newError(kilnv1.ErrorCode_INTERNAL_FAULT, codes.Internal, "the server "+format, values...)
}

// askedBefore are the commands before this one whose answers are waited for, in order.
func (l *link) askedBefore(command uint64) []uint64 {
	var found []uint64
	for number := range l.asked {
		if number < command {
			found = append(found, number)
		}
	}
	slices.Sort(found)
	return found
}

// confirm: all up to this command have ended.
func (l *link) confirm(command uint64) {
	l.seen = command
	for len(l.kept) > 0 && l.kept[0].request.CommandId <= command {
		l.bytes -= l.kept[0].bytes
		l.kept[0], l.kept = sent{}, l.kept[1:]
		l.unsent = max(0, l.unsent-1)
	}
	l.changed.Broadcast()
}

// ofCommand is the failure of a stream's command, with what went wrong first.
func ofCommand(said *kilnv1.CommandFailed, command uint64) *Error {
	var status spb.Status
	if err := proto.Unmarshal(said.Status, &status); err != nil {
		return newError(0, codes.Internal, "a failure that cannot be read: %s", err)
	}
	failed := fromStatus(&status)
	failed.Command = cmp.Or(said.CauseCommandId, command)
	failed.Tag = cmp.Or(said.Tag, failed.Tag)
	return failed
}

// giveUp: the answers up to `lost` are no longer all there. So nobody knows whether all those commands went well, and
// the next Fence says that.
func (l *link) giveUp(lost uint64) *Error {
	if lost <= l.seen {
		return nil
	}
	if lost > l.last {
		return badServer("lost the answers to %d commands of %d", lost, l.last)
	}
	failed := newError(0, codes.Unavailable, "the connection to %s was lost with an answer: ask again", l.client.target)
	for _, command := range l.askedBefore(lost + 1) {
		l.asked[command].set(nil, failed)
		delete(l.asked, command)
	}
	if l.failure == nil {
		l.failure = failed
	}
	l.confirm(lost)
	return nil
}
