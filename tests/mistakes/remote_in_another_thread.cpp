// says: a sender: the remote itself stays where it is
// lines: 12
#include "tvec/tvec.hpp"

void work(tvec::remote<> mailbox);

void start(tvec::remote<>& mailbox) { work(mailbox); }
