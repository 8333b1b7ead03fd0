package dcbnl

import (
	"reflect"
	"testing"
)

// FuzzDecode reads anything as a reply: no panic, and what is understood says the same when it is
// written and read again.
func FuzzDecode(f *testing.F) {
	for _, name := range []string{"get-default", "get-full", "get-longer", "get-nothing", "capabilities", "set-pfc", "set-trust"} {
		f.Add(golden(f, name))
	}
	f.Add([]byte{})
	f.Add(answer(attrIEEE, -22))
	f.Fuzz(func(t *testing.T, payload []byte) {
		_, _ = decodeClaims(payload)
		_, _ = status(payload, attrIEEE)
		s, err := Decode(payload)
		if err != nil {
			return
		}
		again, err := Decode(encode(s))
		if err != nil || !reflect.DeepEqual(s, again) {
			t.Errorf("%+v is read again as %+v: %v", s, again, err)
		}
	})
}

// encode is a reply that says s.
func encode(s State) []byte {
	var ieee, top []byte
	if s.ETS != nil {
		ieee = appendAttribute(ieee, ieeeETS, encodeETS(*s.ETS))
	}
	if s.PFC != nil {
		ieee = appendAttribute(ieee, ieeePFC, encodePFC(*s.PFC))
	}
	if s.MaxRate != nil {
		ieee = appendAttribute(ieee, ieeeMaxRate, encodeMaxRate(*s.MaxRate))
	}
	if s.Buffer != nil {
		ieee = appendAttribute(ieee, ieeeBuffer, encodeBuffer(*s.Buffer))
	}
	if s.Apps != nil {
		var table []byte
		for _, a := range s.Apps {
			table = append(table, encodeApp(a)...)
		}
		ieee = appendAttribute(ieee, ieeeAppTable, table)
	}
	if s.TrustOrder != nil {
		ieee = appendAttribute(ieee, ieeeTrustTable, encodeTrustOrder(s.TrustOrder))
	}
	top = appendAttribute(top, attrIEEE, ieee)
	if s.DCBX != nil {
		top = appendAttribute(top, attrDCBX, []byte{byte(*s.DCBX)})
	}
	return request(cmdIEEEGet, "", top)
}
