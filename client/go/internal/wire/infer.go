package wire

import (
	"encoding/binary"
	"errors"
	"io"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"kiln/v1/inference"
)

// Arrays of models pass protobuf by, as chunks do: in a request they are not copied but into the frames of HTTP/2, and
// of an answer each is copied once, into memory of its own. All other fields are protobuf's to write and read.

const (
	contentsOfRequest = 0x3a // ModelInferRequest.raw_input_contents = 7
	contentsOfAnswer  = 0x32 // ModelInferResponse.raw_output_contents = 6
	errorOfStreamed   = 0x0a // ModelStreamInferResponse.error_message = 1
	answerOfStreamed  = 0x12 // ModelStreamInferResponse.infer_response = 2
)

var errNoAnswer = errors.New("what came is no answer of a model's")

func (c chunkCodec) marshalRequest(request *inference.ModelInferRequest) (mem.BufferSlice, error) {
	made, err := c.CodecV2.Marshal(&inference.ModelInferRequest{
		ModelName:    request.ModelName,
		ModelVersion: request.ModelVersion,
		Id:           request.Id,
		Parameters:   request.Parameters,
		Inputs:       request.Inputs,
		Outputs:      request.Outputs,
	})
	if err != nil {
		return nil, err
	}
	for _, content := range request.RawInputContents {
		head := binary.AppendUvarint([]byte{contentsOfRequest}, uint64(len(content)))
		made = append(made, mem.SliceBuffer(head))
		if len(content) > 0 {
			made = append(made, mem.SliceBuffer(content))
		}
	}
	return made, nil
}

// readAnswer reads the next bytes as an answer.
func readAnswer(reader *mem.Reader, bytes int, answer *inference.ModelInferResponse) error {
	end := reader.Remaining() - bytes
	var rest []byte
	var contents [][]byte
	for reader.Remaining() > end {
		tag, err := binary.ReadUvarint(reader)
		if err != nil {
			return errNoAnswer
		}
		if tag == contentsOfAnswer {
			content, err := readBytes(reader, end)
			if err != nil {
				return err
			}
			contents = append(contents, content)
			continue
		}
		if rest, err = copyField(reader, end, tag, rest); err != nil {
			return err
		}
	}
	if reader.Remaining() < end {
		return errNoAnswer
	}
	err := proto.Unmarshal(rest, answer)
	answer.RawOutputContents = contents
	return err
}

func readStreamed(reader *mem.Reader, answer *inference.ModelStreamInferResponse) error {
	proto.Reset(answer)
	for reader.Remaining() > 0 {
		tag, err := binary.ReadUvarint(reader)
		if err != nil {
			return errNoAnswer
		}
		switch tag {
		case answerOfStreamed:
			length, err := readLength(reader, 0)
			if err != nil {
				return err
			}
			answer.InferResponse = &inference.ModelInferResponse{}
			if err := readAnswer(reader, length, answer.InferResponse); err != nil {
				return err
			}
		case errorOfStreamed:
			text, err := readBytes(reader, 0)
			if err != nil {
				return err
			}
			answer.ErrorMessage = string(text)
		default:
			if err := skip(reader, tag&7); err != nil {
				return err
			}
		}
	}
	return nil
}

// readLength reads how many bytes follow, of those there are before `end` is left.
func readLength(reader *mem.Reader, end int) (int, error) {
	length, err := binary.ReadUvarint(reader)
	if left := reader.Remaining() - end; err != nil || left < 0 || length > uint64(left) {
		return 0, errNoAnswer
	}
	return int(length), nil
}

// readBytes makes memory of what has come, whatever length was said.
func readBytes(reader *mem.Reader, end int) ([]byte, error) {
	length, err := readLength(reader, end)
	if err != nil {
		return nil, err
	}
	data := make([]byte, length)
	_, err = io.ReadFull(reader, data)
	return data, err
}

// copyField appends a field, whose tag has been read, as it came.
func copyField(reader *mem.Reader, end int, tag uint64, to []byte) ([]byte, error) {
	to = binary.AppendUvarint(to, tag)
	length := 0
	switch tag & 7 {
	case 0:
		value, err := binary.ReadUvarint(reader)
		if err != nil {
			return nil, errNoAnswer
		}
		return binary.AppendUvarint(to, value), nil
	case 1:
		length = 8
	case 2:
		var err error
		if length, err = readLength(reader, end); err != nil {
			return nil, err
		}
		to = binary.AppendUvarint(to, uint64(length))
	case 5:
		length = 4
	default:
		return nil, errNoAnswer
	}
	if length > reader.Remaining()-end {
		return nil, errNoAnswer
	}
	start := len(to)
	to = append(to, make([]byte, length)...)
	_, err := io.ReadFull(reader, to[start:])
	return to, err
}
