# Which class is a friend is nobody's business; which function is one is. Calls that do not compile are no functions.
s/friend.class.[a-z_:]*//
/wrong calls, and what to write instead/,/^private:\|^};\|^}  \/\/ namespace\|^    \/\/ ---/{
    /wrong calls, and what to write instead/d
    /^private:\|^};\|^}  \/\/ namespace\|^    \/\/ ---/!d
}
