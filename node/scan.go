package node

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// What follows reads JSON that encoding/json has found valid already, such as what it hands to an UnmarshalJSON: it is cut into
// its parts without being checked again, since most of a recording's reading would be that.

// afterSpace is the index of the first byte at or after i that is no white space.
func afterSpace(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\t' || data[i] == '\r') {
		i++
	}
	return i
}

// afterString is the index behind the string that begins at i.
func afterString(data []byte, i int) int {
	for i++; ; i++ {
		quote := bytes.IndexByte(data[i:], '"')
		if quote < 0 {
			return len(data)
		}
		escape := bytes.IndexByte(data[i:i+quote], '\\')
		if escape < 0 {
			return i + quote + 1
		}
		i += escape + 1 // what is escaped is skipped, too
	}
}

// afterValue is the index behind the value that begins at i.
func afterValue(data []byte, i int) int {
	for depth := 0; i < len(data); {
		switch data[i] {
		case '"':
			i = afterString(data, i)
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\n', '\t', '\r':
			i++
			continue
		default:
			for i < len(data) && !bytes.ContainsRune([]byte(",:]} \n\t\r"), rune(data[i])) {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
	return i
}

// elements calls each with the values of an array, one after the other, until it returns false. What is no array has none.
func elements(array []byte, each func(value []byte) bool) {
	i := afterSpace(array, 0)
	if i == len(array) || array[i] != '[' {
		return
	}
	for i = afterSpace(array, i+1); i < len(array) && array[i] != ']'; {
		end := afterValue(array, i)
		if !each(array[i:end]) {
			return
		}
		if i = afterSpace(array, end); i < len(array) && array[i] == ',' {
			i = afterSpace(array, i+1)
		}
	}
}

// members calls each with the name and the value of an object's members, one after the other, until it returns false. What is no
// object has none.
func members(object []byte, each func(name, value []byte) bool) {
	i := afterSpace(object, 0)
	if i == len(object) || object[i] != '{' {
		return
	}
	for i = afterSpace(object, i+1); i < len(object) && object[i] == '"'; {
		end := afterString(object, i)
		name, ok := plainString(object[i:end])
		if !ok {
			var text string
			_ = json.Unmarshal(object[i:end], &text) // valid JSON
			name = []byte(text)
		}
		i = afterSpace(object, afterSpace(object, end)+1) // ":"
		end = afterValue(object, i)
		if !each(name, object[i:end]) {
			return
		}
		if i = afterSpace(object, end); i < len(object) && object[i] == ',' {
			i = afterSpace(object, i+1)
		}
	}
}

// plainString is the text of a string of ASCII without escapes; false for every other value.
func plainString(value []byte) ([]byte, bool) {
	if len(value) < 2 || value[0] != '"' {
		return nil, false
	}
	text := value[1 : len(value)-1]
	for _, c := range text {
		if c == '\\' || c >= 0x80 {
			return nil, false
		}
	}
	return text, true
}

// plainScalar decodes a string, a bool or an int in its usual form; false for every other value and type.
func plainScalar(value []byte, into any) bool {
	switch into := into.(type) {
	case *string:
		text, ok := plainString(value)
		*into = string(text)
		return ok
	case *bool:
		*into = string(value) == "true"
		return *into || string(value) == "false"
	case *int:
		n, err := strconv.Atoi(string(value))
		*into = n
		return err == nil
	default:
		return false
	}
}

// plainSource is a Source in its usual form; false for every other value.
func plainSource(value []byte) (Source, bool) {
	var s Source
	plain := len(value) > 0 && value[0] == '{'
	members(value, func(name, value []byte) bool {
		text, isText := plainString(value)
		switch {
		case string(name) == "path" && isText:
			s.Path = string(text)
		case string(name) == "call" && isText:
			s.Call = string(text)
		case string(name) == "line":
			line, err := strconv.Atoi(string(value))
			plain = plain && err == nil
			s.Line = line
		default:
			plain = false
		}
		return plain
	})
	return s, plain
}

// plainValue is a recorded form in its usual shape; false for every other one.
func plainValue(data []byte) (valueJSON, bool) {
	a, plain := plainAnswer(data)
	return a.recorded(), plain && a.Kind == "" && a.Key == ""
}

// plainAnswer is a recorded answer in its usual shape; false for every other one.
func plainAnswer(data []byte) (answerJSON, bool) {
	var a answerJSON
	plain := len(data) > 0 && data[0] == '{'
	members(data, func(name, value []byte) bool {
		var text *string
		switch string(name) {
		case "kind":
			text = &a.Kind
		case "key":
			text = &a.Key
		case "value":
			a.Value = value
		case "reason":
			text = &a.Reason
		case "needs":
			text = &a.Needs
		case "unsupported":
			plain = plainScalar(value, &a.Unsupported)
		case "source":
			var s Source
			s, plain = plainSource(value)
			a.Source = &s
		default:
			plain = false
		}
		if text != nil {
			plain = plainScalar(value, text)
		}
		return plain
	})
	return a, plain
}
