package node

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// What follows cuts JSON into its parts without checking them, since most of a recording's reading would be that. Names and values
// are those that encoding/json finds where the text is valid, and it is valid where it is whole and all its names and values are.

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

// elements calls each with the values of an array, one after the other, until it returns false. It is whole when it came to the
// end of the array, and of the text. What is no array has none.
func elements(array []byte, each func(value []byte) bool) (whole bool) {
	i := afterSpace(array, 0)
	if i == len(array) || array[i] != '[' {
		return false
	}
	if i = afterSpace(array, i+1); isEnd(array, i, ']') {
		return true
	}
	for {
		end := afterValue(array, i)
		if !each(array[i:end]) {
			return false
		}
		var more bool
		if i, more = afterComma(array, end); !more {
			return isEnd(array, i, ']')
		}
	}
}

// members calls each with the name and the value of an object's members, one after the other, until it returns false. It is whole
// when it came to the end of the object, and of the text. What is no object has none.
func members(object []byte, each func(name, value []byte) bool) (whole bool) {
	i := afterSpace(object, 0)
	if i == len(object) || object[i] != '{' {
		return false
	}
	if i = afterSpace(object, i+1); isEnd(object, i, '}') {
		return true
	}
	for i < len(object) && object[i] == '"' {
		end := afterString(object, i)
		name, ok := plainString(object[i:end])
		if !ok {
			var text string
			_ = json.Unmarshal(object[i:end], &text) // no name of a member that somebody looks for, where it is not valid
			name = []byte(text)
		}
		if i = afterSpace(object, end); i == len(object) || object[i] != ':' {
			return false
		}
		i = afterSpace(object, i+1)
		end = afterValue(object, i)
		if !each(name, object[i:end]) {
			return false
		}
		var more bool
		if i, more = afterComma(object, end); !more {
			return isEnd(object, i, '}')
		}
	}
	return false
}

// afterComma is the index of what comes behind a value that ends at i, and whether that is another one.
func afterComma(data []byte, i int) (next int, more bool) {
	i = afterSpace(data, i)
	if i < len(data) && data[i] == ',' {
		return afterSpace(data, i+1), true
	}
	return i, false
}

// isEnd reports that a text ends with the bracket at i.
func isEnd(data []byte, i int, bracket byte) bool {
	return i < len(data) && data[i] == bracket && afterSpace(data, i+1) == len(data)
}

// onlyMember is where the value of an object's member stands; false where there is none of the name, or several, such as
// encoding/json takes for one: without regard to case.
func onlyMember(object []byte, wanted string) (first, end int, ok bool) {
	n := 0
	whole := members(object, func(name, value []byte) bool {
		if strings.EqualFold(string(name), wanted) {
			n++
			first = cap(object) - cap(value)
			end = first + len(value)
		}
		return true
	})
	return first, end, whole && n == 1
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
