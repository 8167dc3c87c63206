# Which class is a friend is nobody's business; which function is one is. Calls that do not compile are no functions.
s/friend.class.[a-z_:]*//
/misuses that the compiler refuses/,/^private:\|^};\|^}  \/\/ namespace\|^    \/\/ ---/{
    /misuses that the compiler refuses/d
    /^private:\|^};\|^}  \/\/ namespace\|^    \/\/ ---/!d
}
